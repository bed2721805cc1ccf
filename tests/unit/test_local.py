"""One participant at home: measures under an anchor without losing itself, trains by derived seeds, evaluates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import State
from fedap_core.nn.statistics import batch_norm_inputs, head_inputs
from fedap_core.preprocessing import Preprocessing
from fedap_core.strategies import Measure, make_strategy
from participant.record.model_file import make_initial, module_of
from participant.training.local import LocalClient, LocalPlan, use_threads
from protocol.plan import Compute, Sgd
from tests.support.models import TINY_SHAPE, draw, draw_labels


def initial(seed: int = 0) -> tuple[ModelSpec, State]:
    return make_initial(
        "tests.support.models:make_tiny",
        input_shape=TINY_SHAPE,
        classes=("a", "b", "c"),
        preprocessing=Preprocessing(),
        seed=seed,
    )


def samples_of(count: int, seed: int) -> Samples:
    return Samples(
        x=draw(count, *TINY_SHAPE, seed=seed), y=draw_labels(count, seed=seed), preprocessing=Preprocessing()
    )


TRAIN = samples_of(300, 1)


def client(
    algorithm: str,
    *,
    name: str = "a",
    seed: int = 5,
    options: dict[str, object] | None = None,
    mirrored: bool | None = None,
) -> LocalClient:
    spec, state = initial()
    plan = LocalPlan(strategy=make_strategy(algorithm, options), sgd=Sgd(learning_rate=0.05), seed=seed)
    splits = {"train": TRAIN, "test": samples_of(20, 2)}
    module = module_of(spec, state)
    return LocalClient(name, splits=splits, module=module, spec=spec, plan=plan, mirrored=mirrored)


def require_same(found: BnStats, expected: BnStats) -> None:
    assert (found.samples, found.layer_names) == (expected.samples, expected.layer_names)
    for one, other in zip(found.layers, expected.layers, strict=True):
        np.testing.assert_allclose(one.mean, other.mean, rtol=0, atol=1e-6)
        np.testing.assert_allclose(one.variance, other.variance, rtol=0, atol=1e-6)
        assert (one.covariance is None) == (other.covariance is None)


@pytest.mark.parametrize("covariance", [False, True])
def test_measuring_is_done_under_the_anchor_and_leaves_the_own_model(covariance: bool) -> None:
    spec, anchor = initial(seed=9)
    module = module_of(spec, anchor)
    one = client("fedap", options={"full_covariance": covariance})
    one.train(0)
    before, weights = one.state(), one.shared.copy()
    inputs = one.measure(anchor, Measure.BN_INPUTS)
    head = one.measure(anchor, Measure.HEAD_INPUTS)
    require_same(inputs, batch_norm_inputs(module, [TRAIN.x], covariance=covariance))
    require_same(head, head_inputs(module, "fc", [TRAIN.x], covariance=covariance))
    assert all(torch.equal(tensor, before[name]) for name, tensor in one.state().items())
    np.testing.assert_array_equal(one.shared, weights)


def test_the_own_model_comes_back_even_when_measuring_fails() -> None:
    _, anchor = initial(seed=9)
    broken = anchor | {"conv.weight": torch.full_like(anchor["conv.weight"], float("nan"))}
    one = client("fedap")
    before = one.state()
    with pytest.raises(InvalidInput, match="layer 'norm'"):
        one.measure(broken, Measure.BN_INPUTS)
    assert all(torch.equal(tensor, before[name]) for name, tensor in one.state().items())


def test_an_anchor_of_another_model_is_refused_and_changes_nothing() -> None:
    one = client("fedap")
    before = one.state()
    with pytest.raises(InvalidInput, match="tensor extra"):
        one.measure(initial(seed=9)[1] | {"extra": torch.ones(1)}, Measure.BN_INPUTS)
    assert all(torch.equal(tensor, before[name]) for name, tensor in one.state().items())


def test_an_anchor_with_a_tensor_missing_is_refused() -> None:
    """Otherwise the participant's own tensor would silently stand in for it."""
    _, anchor = initial(seed=9)
    del anchor["conv.weight"]
    with pytest.raises(InvalidInput, match=r"anchor: got no tensor conv\.weight"):
        client("fedap").measure(anchor, Measure.BN_INPUTS)


def test_running_statistics_are_those_after_training() -> None:
    one = client("f-fedap")
    report = one.train(0, measure=Measure.RUNNING)
    assert report.stats is not None
    assert report.stats.samples == 300
    np.testing.assert_allclose(report.stats.layers[0].mean, one.state()["norm.running_mean"].double().numpy())
    assert client("f-fedap").train(0).stats is None


def test_a_round_depends_on_seed_participant_and_round_alone() -> None:
    def trained(name: str, seed: int, round_no: int) -> bytes:
        one = client("fedavg", name=name, seed=seed)
        assert one.train(round_no).metrics.samples == 300
        return one.shared.tobytes()

    first = trained("a", 5, 0)
    assert trained("a", 5, 0) == first
    assert len({first, trained("b", 5, 0), trained("a", 6, 0), trained("a", 5, 1)}) == 4


def test_training_stops_when_told_and_says_how_far_it_came() -> None:
    """300 samples in batches of about 32: round(300 / 32) = 9, of which the first three hold 34."""
    metrics = client("fedavg").train(0, should_stop=lambda: True).metrics
    assert (metrics.steps, metrics.samples) == (1, 34)


def test_what_is_written_into_the_shared_weights_is_what_is_evaluated() -> None:
    """All weights zero: every logit is the head's bias, zero; cross-entropy of three equal logits is ln 3."""
    one = client("fedbn")
    assert one.shared.shape == (161,)
    one.shared[:] = 0.0
    found = one.evaluate("test")
    assert found.samples == 20
    assert found.loss == pytest.approx(1.0986123, abs=1e-6)
    assert one.train_samples == 300


def test_base_shares_nothing() -> None:
    assert client("base").shared.shape == (0,)


def test_a_stored_state_is_taken_over() -> None:
    one, other = client("fedbn"), client("fedbn")
    one.train(0)
    other.load(one.state())
    np.testing.assert_array_equal(one.shared, other.shared)
    assert one.evaluate("train").loss == other.evaluate("train").loss


def test_an_unknown_split_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="split: got validation, expected one of train, test"):
        client("fedavg").evaluate("validation")


def test_an_algorithm_of_batch_norm_refuses_a_model_without() -> None:
    spec, _ = initial()
    plan = LocalPlan(strategy=make_strategy("fedbn"), sgd=Sgd(), seed=0)
    with pytest.raises(InvalidInput, match="fedbn keeps or measures"):
        LocalClient("a", splits={"train": TRAIN}, module=nn.Linear(2, 2), spec=spec, plan=plan)


def test_the_number_of_threads_is_fixed() -> None:
    before = torch.get_num_threads()
    try:
        use_threads(2)
        assert torch.get_num_threads() == 2
    finally:
        use_threads(before)


def test_a_client_whose_weights_are_mirrored_computes_the_same_bits() -> None:
    """An accelerator's memory is not main memory: the same round through a mirror, as far as a CPU can show it."""
    plain, mirrored = client("fedap"), client("fedap", mirrored=True)
    for one in (plain, mirrored):
        one.shared[...] *= 0.5
        one.train(0)
        one.shared[...] *= 0.9
    assert plain.evaluate("test").confusion.tolist() == mirrored.evaluate("test").confusion.tolist()
    assert all(torch.equal(value, mirrored.state()[name]) for name, value in plain.state().items())


def trained_lenet(layers: str) -> State:
    """LeNet-5 after three epochs over 64 images."""
    shape = (1, 28, 28)
    spec, state = make_initial(
        "lenet5", input_shape=shape, classes=("a", "b", "c"), preprocessing=Preprocessing(), seed=0
    )
    sgd = Sgd(learning_rate=0.05, batch_size=16, epochs=3)
    plan = LocalPlan(strategy=make_strategy("fedavg"), sgd=sgd, seed=1, compute=Compute(layers=layers))
    samples = Samples(x=draw(64, *shape, seed=3), y=draw_labels(64, seed=3), preprocessing=Preprocessing())
    one = LocalClient("a", splits={"train": samples}, module=module_of(spec, state), spec=spec, plan=plan)
    one.train(0)
    return one.state()


def test_stock_layers_train_the_same_model_up_to_rounding() -> None:
    """12 steps: float32 rounding, a few 1e-8 of values around 0.1, grows to well below 1e-4; its last bits differ."""
    tiled, stock = trained_lenet("tiled"), trained_lenet("stock")
    for name, tensor in tiled.items():
        np.testing.assert_allclose(tensor.numpy(), stock[name].numpy(), rtol=0, atol=1e-4, err_msg=name)
    assert any(not torch.equal(tensor, stock[name]) for name, tensor in tiled.items())
    again = trained_lenet("stock")
    assert all(torch.equal(tensor, again[name]) for name, tensor in stock.items())


@pytest.mark.parametrize(("round_no", "progress"), [(0, 0.0), (2, 0.0), (3, 0.25), (5, 0.75), (6, 0.75), (40, 0.75)])
def test_rounds_beyond_the_plan_train_as_its_last_one(round_no: int, progress: float) -> None:
    """Rounds 2 to 5 are the plan's; members of a continuous run may train more."""
    plan = LocalPlan(strategy=make_strategy("fedavg"), sgd=Sgd(), seed=0, rounds=range(2, 6))
    assert plan.progress(round_no) == progress
