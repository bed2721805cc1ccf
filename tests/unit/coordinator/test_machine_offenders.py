"""Claims about members that offend again and again, or claim more than they have: strikes, typical steps, counts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from coordinator.decisions import facts
from coordinator.decisions.actions import Inspect, Note
from coordinator.decisions.events import LeaveArrived
from coordinator.record import snapshots
from fedap_core.directions import sketch_of
from protocol.messages import Reject
from tests.support.machines import Bench, find, hello, messages, open_members, rules_for

NAMES = ("a", "b", "c")


def training(*names: str, rounds: int = 200, forgive_after: int = 50) -> Bench:
    members = dataclasses.replace(open_members(len(names)), forgive_after=forgive_after)
    bench = Bench(rules_for("fedbn", rounds=rounds, members=members))
    bench.join(*names)
    return bench


def test_who_alternates_good_and_bad_updates_is_excluded_with_the_third_bad_one() -> None:
    bench = training(*NAMES)
    for round_no in range(6):
        if round_no % 2:
            bench.bad["b", "update", round_no] = "too-far"
        bench.updates(round_no, *NAMES)
    assert [fact.member for fact in bench.facts(facts.Quarantined)] == ["b"]


def test_a_strike_is_forgiven_after_so_many_admitted_updates_in_a_row() -> None:
    """Refused in rounds 0 and 1; four good ones forgive one strike, which the next refusal brings back."""
    bench = training(*NAMES, forgive_after=4)
    for round_no in range(7):
        if round_no in (0, 1, 6):
            bench.bad["b", "update", round_no] = "too-far"
        bench.updates(round_no, *NAMES)
        assert bench.machine.state.members["b"].strikes == {0: 1, 5: 1}.get(round_no, 2)
    assert bench.facts(facts.Quarantined) == []


def test_what_an_update_reports_is_there_when_it_is_judged() -> None:
    bench = training(*NAMES)
    assert [asked.train_loss for asked in find(bench.update("a", 0), Inspect)] == [0.7]


def limit_of(bench: Bench, name: str, round_no: int) -> float | None:
    (asked,) = find(bench.update(name, round_no), Inspect)
    return asked.limit


def test_a_refusal_does_not_switch_the_limit_off_for_the_next_round() -> None:
    """Three members, steps of 1: the limit is 10, with the third refused, and lost by a crash, as well."""
    bench = training(*NAMES)
    bench.updates(0, *NAMES)
    bench.distances["c", 1] = 10.1
    bench.updates(1, *NAMES)
    assert bench.facts(facts.Refused)[0].code == "too-far"
    bench.updates(2, "a", "b")
    assert limit_of(bench, "c", 2) == 10.0
    bench.crash()
    assert bench.machine.state.typical_step == 1.0


def test_the_typical_step_never_shrinks_so_that_newcomers_may_step_as_the_first_did() -> None:
    bench = training(*NAMES)
    bench.updates(0, *NAMES)
    for name in NAMES:
        bench.distances[name, 1] = 0.01
    bench.updates(1, *NAMES)
    assert limit_of(bench, "a", 2) == 10.0


def test_one_of_three_cannot_move_the_typical_step() -> None:
    bench = training(*NAMES)
    bench.distances["b", 0] = 9e5
    bench.updates(0, *NAMES)
    assert bench.machine.state.typical_step == 1.0


def test_typical_steps_and_forgiveness_survive_a_snapshot() -> None:
    bench = training(*NAMES)
    bench.updates(0, *NAMES)
    restored = snapshots.restore(snapshots.take(bench.machine.state, 1))
    assert restored is not None
    assert restored.typical_step == 1.0
    assert [member.admitted for member in restored.members.values()] == [1, 1, 1]


@pytest.mark.parametrize(
    ("samples", "code"), [(201, "too-many-samples"), (49, "too-many-samples"), (200, None), (50, None)]
)
def test_a_members_count_stays_within_a_factor_of_the_one_it_joined_with(samples: int, code: str | None) -> None:
    """Joined with 100: from 50 to 200, whatever it said in between."""
    bench = training(*NAMES)
    bench.join("b", run="run", train_samples=150)
    found = messages(bench.greet("b", hello("b", run="run", train_samples=samples)), "reject")
    assert [one.message.code for one in found if isinstance(one.message, Reject)] == ([code] if code else [])


def test_leaving_and_coming_again_changes_neither_the_first_count_nor_the_strikes() -> None:
    bench = training(*NAMES)
    bench.bad["b", "update", 0] = "not-finite"
    bench.updates(0, *NAMES)
    bench.do(LeaveArrived(connection=bench.peers["b"].connection, reason="test"))
    (refused,) = messages(bench.greet("b", hello("b", train_samples=1000)), "reject")
    assert isinstance(refused.message, Reject)
    assert refused.message.code == "too-many-samples"
    bench.join("b")
    assert (bench.machine.state.members["b"].strikes, bench.machine.state.members["b"].first_samples) == (1, 100)


def test_more_samples_than_the_run_allows_are_refused() -> None:
    bench = Bench(rules_for())
    (refused,) = messages(bench.greet("a", hello("a", train_samples=2**53)), "reject")
    assert isinstance(refused.message, Reject)
    assert (refused.message.code, refused.message.ours) == ("too-many-samples", "at most 10000000")


def pulling(bench: Bench, round_no: int, *against: str) -> None:
    """Everybody's update of a round goes one way, that of some the opposite way."""
    step = np.random.default_rng(3).standard_normal(1000).astype(np.float32)
    for name in NAMES:
        bench.directions[name, round_no] = sketch_of(-step if name in against else step)


def shares(bench: Bench) -> list[float]:
    """What everybody gives to the first row of the latest mix."""
    recipe = bench.machine.state.recipe
    assert recipe is not None
    return [round(float(one), 3) for one in recipe.weights[0]]


def test_who_pulls_against_the_others_gives_nothing_from_that_very_round_on_and_is_named() -> None:
    bench = training(*NAMES)
    pulling(bench, 0)
    bench.updates(0, *NAMES)
    assert shares(bench) == [0.333, 0.333, 0.333]
    pulling(bench, 1, "c")
    pulling(bench, 2, "c")
    actions = bench.updates(1, *NAMES) + bench.updates(2, *NAMES)
    assert shares(bench) == [0.5, 0.5, 0.0]
    assert [note.details for note in find(actions, Note) if note.event == "members.doubted"] == [(("c", 1.0),)]


def test_a_doubt_outlives_a_crash_by_journal_and_by_snapshot() -> None:
    bench = training(*NAMES)
    pulling(bench, 0, "c")
    bench.updates(0, *NAMES)
    assert shares(bench) == [0.5, 0.5, 0.0]
    again = snapshots.restore(snapshots.take(bench.machine.state, 1))
    assert again is not None
    assert again.members["c"].doubt == 1.0
    bench.crash()
    assert bench.machine.state.members["c"].doubt == 1.0
