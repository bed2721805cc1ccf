"""Claims about rarer ways through a run, and about the invariants: each law can be broken, and that is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from coordinator.decisions import facts
from coordinator.decisions.actions import BlobRef, Order, RowRef, Source, WeightsRef
from coordinator.decisions.events import LeaveArrived
from coordinator.decisions.rules import Rules
from coordinator.decisions.stages import Stage
from coordinator.decisions.state import Recipe, State
from fedap_core.errors import InvalidInput
from fedap_core.strategies import Measure, Phase
from protocol.messages import Step
from tests.support.machines import Bench, open_members, orders, pace, rules_for, validation, welcomes


def test_run_without_barriers_converges_by_all_members_together() -> None:
    """Timeouts 1, two members: means 0.5, then 0.5 again: not better, so it ends after four of twenty updates."""
    rules = rules_for(rounds=10, continuous=True, members=open_members(2), paced=pace(patience=1))
    bench = Bench(rules)
    bench.join("a", "b")
    for round_no in range(2):
        for name in "ab":
            bench.update(name, round_no, scores=validation(50))
    assert [fact.reason for fact in bench.facts(facts.Finished)] == ["converged"]


@pytest.mark.parametrize("algorithm", ["fedavg", "fedbn", "base", "f-fedap"])
def test_training_that_starts_from_the_anchor_is_preceded_by_all_of_it(algorithm: str) -> None:
    """What stays home starts from it, too; nothing is measured for an algorithm that does not look at the result."""
    rules = replace(rules_for(algorithm, members=open_members(1)), anchor_file=True, start_from_anchor=True)
    bench = Bench(rules)
    first = orders(bench.join("a"))["a"]
    assert (first.kind, first.measure, first.weights) == ("anchor", Measure.NONE, WeightsRef(source=Source.ANCHOR))
    second = orders(bench.stats("a", 0))["a"]
    assert (second.kind, second.weights) == ("train", WeightsRef(source=Source.ANCHOR))
    assert bench.machine.state.members["a"].statistics is None


def test_start_from_a_warm_up_anchor_brings_the_whole_model_by_an_order_of_its_own() -> None:
    rules = rules_for("fedap", rounds=3, warmup_rounds=1, members=open_members(1))
    rules = replace(rules, strategy=rules_for("fedbn").strategy, start_from_anchor=True)
    bench = Bench(rules)
    bench.join("a")
    said = orders(bench.update("a", 0))
    assert (said["a"].kind, said["a"].measure) == ("anchor", Measure.NONE)
    said = orders(bench.stats("a", 1))
    assert said["a"].kind == "train"
    assert said["a"].weights == WeightsRef(source=Source.ANCHOR, row=RowRef(member="a", round_no=1))
    assert bench.facts(facts.Weighed) == []


@pytest.mark.parametrize(
    "changes",
    [{"start_from_anchor": True}, {"anchor_file": True, "warmup_rounds": 1}],
)
def test_anchors_that_cannot_be_are_refused(changes: dict[str, bool]) -> None:
    with pytest.raises(InvalidInput):
        replace(rules_for("fedap"), **changes)  # type: ignore[arg-type]


def test_leaver_may_return_where_nobody_new_may_come() -> None:
    bench = Bench(rules_for(rounds=9, members=open_members(2, late_join=False)))
    bench.join("a", "b")
    bench.do(LeaveArrived(connection=bench.peers["b"].connection, reason="maintenance"))
    assert len(welcomes(bench.join("b", run="run-1"))) == 1
    assert welcomes(bench.join("c", run="run-1")) == []


def test_machine_says_beforehand_which_reports_it_wants() -> None:
    bench = Bench(rules_for(members=open_members(1)))
    bench.join("a")
    step = Step(kind="update", round_no=0)
    assert bench.machine.wants("a", step)
    assert not bench.machine.wants("a", Step(kind="goodbye", round_no=0))
    assert not bench.machine.wants("a", Step(kind="stats", round_no=0))
    assert not bench.machine.wants("stranger", step)
    bench.update("a", 0)
    assert not bench.machine.wants("a", step)


def test_two_machines_with_equal_facts_have_equal_digests_and_unequal_ones_do_not() -> None:
    def after(*names: str) -> str:
        bench = Bench(rules_for())
        bench.join(*names)
        return bench.machine.digest()

    assert after("a", "b") == after("b", "a")
    assert after("a", "b") != after("a", "c")


def _half(state: State) -> None:
    state.recipe = Recipe(
        phase=Phase.MIXED,
        receivers=(RowRef(member="a", round_no=1),),
        givers=(BlobRef(member="a", kind="update", round_no=0),),
        weights=np.asarray([[0.5]]),
    )


def _backwards(state: State) -> None:
    state.round_members = ("b", "a")


def _over(state: State) -> None:
    state.stage = Stage.FINISHED


def _nothing_to_mix(state: State) -> None:
    state.stage = Stage.AGGREGATING


def _early_end(state: State) -> None:
    state.ended = True


def _odd_weights(state: State) -> None:
    state.weighed = np.ones((2, 2))


def _unordered(state: State) -> None:
    state.members = dict(sorted(state.members.items(), reverse=True))


def _unjudged(state: State) -> None:
    state.members["a"].update_round = 5


def _foreign_row(state: State) -> None:
    row = WeightsRef(source=Source.ROW, row=RowRef(member="b", round_no=0))
    state.members["a"].order = Order(kind="train", round_no=0, weights=row)


def _later_before(state: State) -> None:
    state.members["a"].earlier = Order(kind="train", round_no=9, weights=None)


def _swapped(state: State) -> None:
    _half(state)
    assert state.recipe is not None
    rows = (RowRef(member="b", round_no=1), RowRef(member="a", round_no=1))
    state.recipe = replace(state.recipe, receivers=rows, weights=np.ones((2, 1)))


@pytest.mark.parametrize(
    "break_it",
    [_half, _backwards, _over, _nothing_to_mix, _early_end, _odd_weights, _unordered, _unjudged, _foreign_row,
     _later_before, _swapped],
)  # fmt: skip
def test_a_broken_law_is_noticed(break_it: Callable[[State], None]) -> None:
    rules: Rules = rules_for(members=open_members(2))
    bench = Bench(rules)
    bench.join("a", "b")
    break_it(bench.machine.state)
    with pytest.raises(AssertionError):
        bench.machine.check_invariants()
