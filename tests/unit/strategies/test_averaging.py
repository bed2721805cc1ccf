"""Base, FedAvg, FedProx, FedPer and FedBN: what stays home, W and objective, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from fedap_core.parts import Part
from fedap_core.strategies import STRATEGIES, Evidence, Measure, Mixing, Phase, make_strategy, mixing_of_phase
from fedap_core.strategies.fedap import FEDBN

EVIDENCE = Evidence(counts=(10, 30, 60))
BY_COUNTS = ("fedavg", "fedprox", "fedper", "fedbn", "fedap-unweighted")


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("base", {Part.BODY, Part.HEAD, Part.BATCH_NORM}),
        ("fedavg", set()),
        ("fedprox", set()),
        ("fedper", {Part.HEAD}),
        ("fedbn", {Part.BATCH_NORM}),
        ("fedap", {Part.BATCH_NORM}),
        ("d-fedap", {Part.BATCH_NORM}),
        ("f-fedap", {Part.BATCH_NORM}),
        ("fedap-sbn", set()),
        ("fedap-unweighted", {Part.BATCH_NORM}),
    ],
)
def test_tensors_that_stay_local(name: str, home: set[Part]) -> None:
    assert make_strategy(name).home == home


def test_they_need_batch_norm_where_they_keep_it_alone_or_measure_it() -> None:
    needing = {name for name in STRATEGIES if make_strategy(name).needs_batch_norm}
    assert needing == {"fedbn", "fedap", "d-fedap", "f-fedap", "fedap-sbn", "fedap-unweighted", "fedap-plus"}


@pytest.mark.parametrize("name", BY_COUNTS)
def test_members_weigh_by_their_training_samples(name: str) -> None:
    """10, 30 and 60 of 100 samples: everyone receives 0.1, 0.3 and 0.6 of the three updates."""
    mixing = make_strategy(name).mixing(EVIDENCE)
    np.testing.assert_allclose(mixing.weights, [[0.1, 0.3, 0.6]] * 3, atol=1e-15)
    assert (mixing.layers, mixing.distances) == ((), None)


@pytest.mark.parametrize("name", BY_COUNTS)
def test_members_weigh_alike_when_asked_to(name: str) -> None:
    np.testing.assert_allclose(make_strategy(name, {"equal": True}).mixing(EVIDENCE).weights, np.full((3, 3), 1 / 3))


def test_base_mixes_nothing() -> None:
    assert make_strategy("base").mixing(EVIDENCE).weights.tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("name", ["base", *BY_COUNTS])
def test_they_measure_nothing_and_every_round_is_alike(name: str) -> None:
    strategy = make_strategy(name)
    plans = [strategy.round_plan(round_no, 5) for round_no in range(5)]
    assert strategy.first_measure is Measure.NONE
    assert {(plan.phase, plan.measure) for plan in plans} == {(Phase.MIXED, Measure.NONE)}
    assert not strategy.depends_on_rounds


@pytest.mark.parametrize("name", BY_COUNTS)
def test_without_one_member_the_row_is_rescaled_to_one(name: str) -> None:
    """Member 2 (0.6) is missing: 0.1 and 0.3 become 0.25 and 0.75, for everyone, itself included."""
    strategy = make_strategy(name)
    present = np.array([True, True, False])
    weights = strategy.restrict(strategy.mixing(EVIDENCE).weights, usable=present, own=present)
    np.testing.assert_allclose(weights, [[0.25, 0.75, 0.0]] * 3, atol=1e-15)


def test_rounds_of_the_phase_fedbn_weigh_by_samples_unless_asked_to_weigh_alike() -> None:
    by_samples, alike = (make_strategy("f-fedap", {"equal": equal}) for equal in (False, True))
    weights = mixing_of_phase(by_samples, FEDBN, EVIDENCE).weights
    np.testing.assert_allclose(weights, [[0.1, 0.3, 0.6]] * 3, atol=1e-15)
    np.testing.assert_allclose(mixing_of_phase(alike, FEDBN, EVIDENCE).weights, np.full((3, 3), 1 / 3))


@pytest.mark.parametrize("counts", [(), (3, 0), (-1,)])
def test_evidence_without_members_or_samples_is_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="sample counts"):
        Evidence(counts=counts)


def test_weights_that_are_no_mixing_matrix_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Mixing(weights=np.array([[0.5, 0.4], [0.5, 0.5]]))
