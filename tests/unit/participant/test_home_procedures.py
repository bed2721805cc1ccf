"""What algorithms keep at home survives a restart: reopened before every order, a run ends with the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedap_core.strategies import make_strategy
from participant.decisions.consent import OrderRefused
from participant.decisions.layouts import shared_layout
from participant.record.model_file import read_model
from participant.record.private_state import PERSONAL
from participant.training.home_run import HomeRun
from protocol.encodings import DIFFERENCES, downward
from protocol.messages import Finish, Plan, Score, Sgd, Update
from protocol.tensors import TensorSet, rows_differ
from tests.unit.participant.test_home_run import INITIAL, RUN, SPEC, opened, order, plan, shared, trained

ROUNDS = 3
CASES: dict[str, tuple[str, dict[str, object], Sgd]] = {
    "a second model": ("ditto", {}, Sgd(learning_rate=0.05, batch_size=16)),
    "a second model with momentum of its own": (
        "ditto", {"finetune": 1}, Sgd(learning_rate=0.05, batch_size=16, momentum=0.9, keep_momentum=True),
    ),
    "a vector": ("fedap-plus", {"self_weight": 0.6, "final_self_weight": 0.2}, Sgd(learning_rate=0.05, batch_size=16)),
    "a second model that moves along": ("fedap-plus", {}, Sgd(learning_rate=0.05, batch_size=16, momentum=0.9)),
    "a direction": ("fedap-plus", {"momentum": 0.5}, Sgd(learning_rate=0.05, batch_size=16)),
    "an average and a learnt share": (
        "fedap-plus", {"learning": 0.5, "average_last": 1.0, "average_after": 0},
        Sgd(learning_rate=0.05, batch_size=16),
    ),
    "an average of a second model": (
        "fedap-plus", {"personal_share": 0.5, "average_last": 1.0, "average_after": 0, "forgetting": 0.5},
        Sgd(learning_rate=0.05, batch_size=16),
    ),
    "a tensor that travels beside the weights": ("scaffold", {}, Sgd(learning_rate=0.05, batch_size=16)),
    "a mean that is known after a round": ("feddbe", {}, Sgd(learning_rate=0.05, batch_size=16)),
    "two trainings in a round": ("fedrep", {"head_epochs": 2}, Sgd(learning_rate=0.05, batch_size=16)),
    "int8": ("fedap", {}, Sgd(learning_rate=0.05, batch_size=16)),
    "topk": ("fedap", {}, Sgd(learning_rate=0.05, batch_size=16)),
    "coarse": ("fedap", {}, Sgd(learning_rate=0.05, batch_size=16)),
}  # fmt: skip
"""Under an encoding of differences, what got lost on the way is kept at home, too."""


def plan_of(case: str) -> Plan:
    name, options, sgd = CASES[case]
    layout = shared_layout(SPEC, make_strategy(name, options))
    encoding = case if case in DIFFERENCES else "f32"
    return plan(name, sgd, options=options, rounds=ROUNDS, shared_layout=layout.digest, encoding=encoding)


def mixed(update: Update) -> tuple[TensorSet, int | None]:
    """What a coordinator might give back: the update, moved towards others; and the round to whose update it is the
    difference."""
    weights = update.weights
    values = weights.flat() if weights.in_full is None else weights.in_full.flat()
    if rows_differ(weights.layout, weights.encoding):
        return TensorSet.of_flat(weights.layout, -values * np.float32(0.1), weights.encoding), update.round_no
    return TensorSet.of_flat(weights.layout, values * 0.9, downward(weights.encoding)), None


def ended(folder: Path, case: str, *, reopens: bool) -> tuple[list[bytes], list[Score], dict[str, bytes]]:
    """Every update, every score, and the personal model of a run."""
    (folder / "state").mkdir(parents=True)
    run: HomeRun = opened(folder, plan_of(case))
    weights, base = shared(INITIAL, CASES[case][0]), None
    updates: list[bytes] = []
    scores: list[Score] = []
    for round_no in range(ROUNDS):
        run = opened(folder, plan_of(case)) if reopens else run
        update = trained(run, replace(order(round_no, weights), base=base))
        updates.append(update.weights.flat().tobytes())
        scores += update.scores
        weights, base = mixed(update)
    run = opened(folder, plan_of(case)) if reopens else run
    scores += run.finish(Finish(run=RUN, round_no=ROUNDS, reason="rounds", weights=weights, base=base)).scores
    personal = read_model(folder / PERSONAL)[1]
    return updates, scores, {name: tensor.numpy().tobytes() for name, tensor in personal.items()}


@pytest.mark.parametrize("case", CASES)
def test_a_participant_reopened_before_every_order_ends_with_the_same_bits(case: str, tmp_path: Path) -> None:
    assert ended(tmp_path / "a", case, reopens=True) == ended(tmp_path / "b", case, reopens=False)


def test_a_difference_gives_the_model_that_the_values_in_full_would(tmp_path: Path) -> None:
    """What arrives is the reported update plus the decoded difference."""
    reports = []
    for number, in_full in enumerate((False, True)):
        folder = tmp_path / str(number)
        (folder / "state").mkdir(parents=True)
        run = opened(folder, plan_of("coarse"))
        update = trained(run, order(0, shared(INITIAL, "fedap")))
        weights, base = mixed(update)
        if in_full:
            assert update.weights.in_full is not None
            weights, base = TensorSet.of_flat(weights.layout, update.weights.in_full.flat() + weights.flat()), None
        reports.append(trained(run, replace(order(1, weights), base=base)))
    assert reports[0] == reports[1]


def test_a_difference_to_another_update_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(parents=True)
    run = opened(tmp_path, plan_of("coarse"))
    weights, _ = mixed(trained(run, order(0, shared(INITIAL, "fedap"))))
    with pytest.raises(OrderRefused, match=r"difference to update 3, where the latest report is update 0"):
        trained(run, replace(order(4, weights), base=3))


def test_a_delivery_that_is_learnt_from_can_be_stopped_and_leaves_no_trace(tmp_path: Path) -> None:
    """FedALA learns for at least ten epochs from its second delivery. Stopped after six batches, training asks once."""
    asked = 0

    def stops() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    ends = []
    for number, disturbs in enumerate((False, True)):
        (tmp_path / str(number) / "state").mkdir(parents=True)
        run = opened(tmp_path / str(number), plan("fedala"))
        weights, _ = mixed(trained(run, order(0, shared(INITIAL, "fedala"))))
        if disturbs:
            assert run.train(order(1, weights), stops) is None
        ends.append(trained(run, order(1, weights)))
    assert asked == 7
    assert ends[0] == ends[1]


def test_what_is_kept_matters_to_the_result(tmp_path: Path) -> None:
    """Otherwise the test above could not fail: a participant that forgets its second model hands over another one."""
    kept = ended(tmp_path / "kept", "a second model", reopens=False)
    (tmp_path / "lost" / "state").mkdir(parents=True)
    run, weights = opened(tmp_path / "lost", plan_of("a second model")), shared(INITIAL, "ditto")
    for round_no in range(ROUNDS):
        update = trained(run, order(round_no, weights))
        weights, _ = mixed(update)
        run._client._work.kept_models["personal"].flat.load(INITIAL)
    run.finish(Finish(run=RUN, round_no=ROUNDS, reason="rounds", weights=weights))
    personal = read_model(tmp_path / "lost" / PERSONAL)[1]
    assert {name: tensor.numpy().tobytes() for name, tensor in personal.items()} != kept[2]


def test_both_kinds_of_scores_are_reported_where_another_model_is_handed_over(tmp_path: Path) -> None:
    _, scores, _ = ended(tmp_path, "a second model", reopens=False)
    assert [score.model for score in scores] == ["delivered", "handed-over"] * ROUNDS
    assert any(one.loss != other.loss for one, other in zip(scores[::2], scores[1::2], strict=True))


def test_the_exchanged_model_of_ditto_is_fedavgs_to_the_bit(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("ditto", "fedavg")]
    updates = []
    for folder in folders:
        (folder / "state").mkdir(parents=True)
        run = opened(folder, plan(folder.name, rounds=ROUNDS))
        updates.append(trained(run, order(0, shared(INITIAL, folder.name))).weights.flat())
    assert np.array_equal(updates[0], updates[1])
