"""Claims about one run at home: what each order leaves on disk and in the report, and what a new life makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.strategies import make_strategy
from participant.data.base import DataOptions
from participant.decisions.layouts import model_layout, shared_layout
from participant.record.model_file import make_initial, read_model
from participant.record.private_state import PERSONAL, PrivateState
from participant.training.home_data import HomeData
from participant.training.home_run import HomeRun
from participant.training.home_settings import HomeSettings
from participant.training.outgoing import OutgoingStep
from protocol.messages import Anchor, Compute, Finish, Goodbye, Plan, Sgd, Train, Update, Welcome
from protocol.tensors import TensorSet

RUN = "home-run"
DATA = HomeData.load("synthetic", DataOptions(options={"samples": "96", "classes": "3"}))
SPEC, INITIAL = make_initial(
    "lenet5",
    input_shape=DATA.dataset.input_shape,
    classes=DATA.dataset.classes,
    preprocessing=DATA.dataset.preprocessing,
    seed=0,
)


def plan(strategy: str = "fedap", sgd: Sgd | None = None, **others: object) -> Plan:
    fields: dict[str, object] = {
        "strategy": strategy,
        "options": {},
        "mode": "barrier",
        "rounds": 4,
        "seed": 0,
        "split": "paper",
        "encoding": "f32",
        "model_layout": model_layout(SPEC).digest,
        "shared_layout": shared_layout(SPEC, make_strategy(strategy)).digest,
        "sgd": sgd or Sgd(learning_rate=0.05, batch_size=16),
        "compute": Compute(),
    }
    return Plan(**{**fields, **others})  # type: ignore[arg-type]


def whole(state: State) -> TensorSet:
    return TensorSet.of({spec.name: state[spec.name].numpy() for spec in model_layout(SPEC).specs})


def shared(state: State, strategy: str = "fedap", *, spec: ModelSpec = SPEC) -> TensorSet:
    layout = shared_layout(spec, make_strategy(strategy))
    zeros = {one.name: np.zeros(one.shape, dtype=np.float32) for one in layout.specs}
    return TensorSet.of({name: state[name].numpy() if name in state else zero for name, zero in zeros.items()})


def opened(
    folder: Path,
    what: Plan | None = None,
    *,
    share_class_counts: bool = False,
    beside: bool = False,
    steps: tuple[OutgoingStep, ...] = (),
) -> HomeRun:
    """A life of the participant; the folder is its disk."""
    welcome = Welcome(
        run=RUN, participant="c1", round_no=0, heartbeat_s=1.0, plan=what or plan(), initial=whole(INITIAL)
    )
    settings = HomeSettings(share_class_counts=share_class_counts, beside=beside, outgoing_steps=steps)
    return HomeRun(welcome=welcome, spec=SPEC, data=DATA, state=PrivateState(folder), settings=settings)


def order(round_no: int, weights: TensorSet, **others: str) -> Train:
    named = {"phase": "mixed", "measure": "none", **others}
    return Train(run=RUN, round_no=round_no, weights=weights, phase=named["phase"], measure=named["measure"])


def never() -> bool:
    return False


def trained(run: HomeRun, *orders: Train, should_stop: Callable[[], bool] = never) -> Update:
    update = None
    for one in orders:
        update = run.train(one, should_stop)
    assert update is not None
    return update


def trained_state(run: HomeRun) -> State:
    """The model after a first round of training."""
    trained(run, order(0, shared(INITIAL)))
    return run._client.state()


def bits(tensors: TensorSet) -> bytes:
    return tensors.flat().tobytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path


def test_new_process_sends_the_same_report_and_continues_as_the_old_one_would(folder: Path, tmp_path: Path) -> None:
    start = shared(INITIAL)
    first = opened(folder, share_class_counts=True)
    update = trained(first, order(0, start, measure="running"))
    reborn = opened(folder, share_class_counts=True)
    assert reborn.finished_report == update
    assert update.statistics is not None
    one, other = (trained(run, order(1, start)) for run in (first, reborn))
    assert bits(one.weights) == bits(other.weights)
    assert one.scores == other.scores
    assert len(one.scores) == 1


def test_stopped_training_leaves_no_trace(folder: Path) -> None:
    start = shared(INITIAL)
    run = opened(folder)
    asked = iter([False, True, True, True])
    assert run.train(order(0, start), lambda: next(asked)) is None
    assert run.finished_report is None
    undisturbed = opened(folder)
    assert bits(trained(run, order(0, start)).weights) == bits(trained(undisturbed, order(0, start)).weights)


def test_work_limit_ends_a_round_early_and_keeps_what_was_learnt(folder: Path) -> None:
    """48 training samples in batches of 16 are 3 steps an epoch; a limit of a nanosecond strikes after the first."""
    limited = plan(sgd=Sgd(learning_rate=0.05, batch_size=16, epochs=5, work_limit_s=1e-9))
    update = trained(opened(folder, limited), order(0, shared(INITIAL)))
    assert update.steps == 1
    assert bits(update.weights) != bits(shared(INITIAL))


def test_kept_momentum_survives_a_restart(folder: Path, tmp_path: Path) -> None:
    heavy = plan(sgd=Sgd(learning_rate=0.05, batch_size=16, momentum=0.9, keep_momentum=True))
    start = shared(INITIAL)
    first = opened(folder, heavy)
    trained(first, order(0, start))
    reborn = opened(folder, heavy)
    forgetful = plan(sgd=Sgd(learning_rate=0.05, batch_size=16, momentum=0.9))
    (tmp_path / "other" / "state").mkdir(parents=True)
    fresh = opened(tmp_path / "other", forgetful)
    trained(fresh, order(0, start))
    ends = [bits(trained(run, order(1, start)).weights) for run in (first, reborn, fresh)]
    assert ends[0] == ends[1]
    assert ends[0] != ends[2]


def test_newcomer_fits_its_batch_norm_to_its_own_data_and_a_first_member_does_not(folder: Path, tmp_path: Path) -> None:
    """Weights other than the start's in one's first round were trained by others; the start's own are round 0."""
    moved = {name: t + 0.1 if t.is_floating_point() else t for name, t in INITIAL.items()}
    (tmp_path / "other" / "state").mkdir(parents=True)
    newcomer, first = opened(folder), opened(tmp_path / "other")
    newcomer._deliver(order(2, shared(moved)))
    first._deliver(order(0, shared(INITIAL)))
    statistics = [name for name in INITIAL if name.endswith(("running_mean", "running_var"))]
    assert not any(torch.equal(newcomer._client.state()[name], INITIAL[name]) for name in statistics)
    assert all(torch.equal(first._client.state()[name], INITIAL[name]) for name in statistics)
    score = trained(opened(folder), order(2, shared(moved))).scores[0]
    plain = opened(tmp_path / "other")
    plain._client.deliver(2, shared(moved).flat())
    assert score.loss is not None
    assert score.loss < plain._client.evaluate("test").loss, "its first answer is of a model that fits"


@pytest.mark.parametrize("warm_up", [False, True])
@pytest.mark.parametrize("reopens", [False, True])
def test_a_member_whose_first_weights_come_in_the_end_fits_its_batch_norm_as_one_that_is_to_train(
    warm_up: bool, reopens: bool, folder: Path, tmp_path: Path
) -> None:
    """Warm-up does not count: its batch norm is shared, and not that of the personal model."""
    agreed = plan(anchor="warmup", warmup_rounds=1) if warm_up else plan()
    moved = {name: t + 0.1 if t.is_floating_point() else t for name, t in INITIAL.items()}
    (tmp_path / "other" / "state").mkdir(parents=True)
    ends, trains = (opened(one, agreed) for one in (folder, tmp_path / "other"))
    if warm_up:
        trained(ends, order(0, shared(INITIAL, "fedavg"), phase="warmup"))
    ends = opened(folder, agreed) if reopens else ends
    goodbye = ends.finish(Finish(run=RUN, round_no=4, reason="rounds", weights=shared(moved)))
    assert goodbye.scores == trained(trains, order(4, shared(moved))).scores
    personal = read_model(folder / PERSONAL)[1]
    assert not torch.equal(personal["bn1.running_mean"], INITIAL["bn1.running_mean"])


def test_a_member_that_has_trained_keeps_its_batch_norm_in_the_end_also_after_a_restart(folder: Path) -> None:
    own = trained_state(opened(folder))
    opened(folder).finish(Finish(run=RUN, round_no=1, reason="rounds", weights=shared(INITIAL)))
    personal = read_model(folder / PERSONAL)[1]
    assert all(torch.equal(personal[name], own[name]) for name in own if name.startswith("bn"))


def test_warm_up_shares_batch_norm_and_the_run_proper_restarts_from_the_initial_model(folder: Path) -> None:
    warm = plan(anchor="warmup", warmup_rounds=2)
    run = opened(folder, warm)
    everything = shared(INITIAL, "fedavg")
    update = trained(run, order(0, everything, phase="warmup"), order(1, everything, phase="warmup"))
    assert "bn1.weight" in [spec.name for spec in update.weights.layout.specs]
    anchor = Anchor(run=RUN, round_no=2, measure="bn-inputs", weights=whole(INITIAL))
    assert run.measure(anchor).samples == 48
    proper = trained(run, order(2, shared(INITIAL)))
    assert "bn1.weight" not in [spec.name for spec in proper.weights.layout.specs]
    assert proper.scores == (), "what round 2 delivers is the initial model, not the result of a round"
    reborn = opened(folder, warm)
    assert reborn.finished_report == proper


def test_finish_keeps_the_personal_model_with_its_own_batch_norm(folder: Path) -> None:
    run = opened(folder)
    trained(run, order(0, shared(INITIAL)))
    goodbye = run.finish(Finish(run=RUN, round_no=1, reason="rounds", weights=shared(INITIAL)))
    spec, state, notes = read_model(folder / PERSONAL)
    assert spec == SPEC
    assert torch.equal(state["fc1.weight"], INITIAL["fc1.weight"]), "shared tensors are the delivered ones"
    assert not torch.equal(state["bn1.running_mean"], INITIAL["bn1.running_mean"]), "BN is its own"
    assert (notes["run"], notes["rounds"], notes["algorithm"]) == (RUN, "1", "fedap")
    reborn = opened(folder)
    assert reborn.finished_report == goodbye
    assert isinstance(goodbye, Goodbye)


def test_start_from_anchor_takes_over_its_batch_norm_too(folder: Path) -> None:
    moved = {name: t + 0.1 if t.is_floating_point() else t for name, t in INITIAL.items()}
    run = opened(folder, plan(start_from="anchor", anchor="file"))
    run.measure(Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=whole(moved)))
    assert torch.equal(
        opened(folder, plan(start_from="anchor", anchor="file"))._start["bn1.weight"], moved["bn1.weight"]
    )


def test_plan_that_would_be_carried_out_otherwise_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"plan\.shared_layout"):
        opened(folder, plan(shared_layout="00" * 16))


def test_weights_with_other_tensors_are_refused(folder: Path) -> None:
    run = opened(folder)
    with pytest.raises(InvalidInput, match="tensors of train 0"):
        run.train(order(0, TensorSet.of({"w": np.zeros(3, dtype=np.float32)})), never)


def test_folder_serves_one_process_at_a_time(tmp_path: Path) -> None:
    with PrivateState(tmp_path), pytest.raises(InvalidInput, match="no other participant"):
        PrivateState(tmp_path).__enter__()
    with PrivateState(tmp_path) as again:
        assert again.current_run() is None


def test_split_at_home_follows_the_plan_and_the_name(folder: Path) -> None:
    """96 samples: half and half gives 48 and 48, class by class within one; 40/30/30 gives about 38, 29, 29."""
    paper = DATA.split(protocol="paper", validation=0.0, seed=0, name="c1")
    assert sum(len(part) for part in paper.values()) == 96
    assert abs(len(paper["train"]) - 48) <= 2
    reference = DATA.split(protocol="reference", validation=0.2, seed=0, name="c1")
    assert list(reference) == ["train", "validation", "test"]
    assert [list(p) for p in DATA.split(protocol="paper", validation=0.0, seed=0, name="c1").values()] == [
        list(p) for p in paper.values()
    ]
    assert list(DATA.split(protocol="paper", validation=0.0, seed=0, name="c2")["train"]) != list(paper["train"])


def test_validation_is_cut_from_the_training_half_alone(folder: Path) -> None:
    paper = DATA.split(protocol="paper", validation=0.0, seed=0, name="c1")
    cut = DATA.split(protocol="paper", validation=0.25, seed=0, name="c1")
    assert list(cut["test"]) == list(paper["test"])
    assert sorted([*cut["train"], *cut["validation"]]) == list(paper["train"])
    assert len(cut["validation"]) == pytest.approx(len(paper["train"]) / 4, abs=2)


def test_training_that_ends_in_nan_is_refused_and_the_model_before_stays(folder: Path) -> None:
    """Each step multiplies the weights by 1 - 1000 * 1: after fourteen they are beyond float32."""
    diverging = plan(sgd=Sgd(learning_rate=1000.0, weight_decay=1.0, epochs=5, batch_size=16))
    run = opened(folder, diverging)
    kept = {path.name: path.read_bytes() for path in (folder / "state" / RUN).iterdir()}
    with pytest.raises(InvalidInput, match=r"training of round 1: got .*not finite.*learning rate is too high"):
        trained(run, order(0, shared(INITIAL)))
    assert {path.name: path.read_bytes() for path in (folder / "state" / RUN).iterdir()} == kept
    assert opened(folder, diverging).finished_report is None
