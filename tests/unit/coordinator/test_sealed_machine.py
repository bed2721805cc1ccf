"""Claims about rows of a sealed run at the coordinator: they are requests, refused where they ask for too much, and
made anew only when the set of statistics changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from coordinator.decisions import events
from coordinator.decisions.actions import Action, Aggregate, Order, Send
from coordinator.decisions.facts import Refused, UpdateAccepted
from fedap_core.sealing import rows
from fedap_core.sealing.fixed_point import WHOLE
from fedap_core.strategies import STRATEGIES, make_strategy, sealing_objection
from protocol.messages import Error, Sealing
from tests.support.machines import Bench, find, hello, open_members, pace, rules_for

FINGERPRINT = "ab" * 16
SEALING = Sealing(fingerprint=FINGERPRINT, max_peer_weight=0.25)
EVERYBODY = ("a", "b", "c", "d")


def sealed_bench(
    algorithm: str = "fedap", *names: str, rounds: int = 4, warmup_rounds: int = 0, **options: float
) -> Bench:
    """Members whose statistics have come, and who were ordered to train."""
    made = rules_for(
        algorithm, rounds=rounds, warmup_rounds=warmup_rounds, members=open_members(len(EVERYBODY), late_join=True),
        options=dict(options), paced=pace(quorum=2, deadline_s=100.0, dead_after_s=1000.0),
    )  # fmt: skip
    bench = Bench(replace(made, sealing=SEALING))
    join(bench, *(names or EVERYBODY))
    return bench


def join(bench: Bench, *names: str) -> None:
    for name in names:
        bench.greet(name, replace(hello(name, train_samples=0), group_key=FINGERPRINT))
    measure(bench, *names)


def measure(bench: Bench, *names: str) -> None:
    for name in names:
        if order_of(bench, name).kind == "anchor":
            bench.stats(name, order_of(bench, name).round_no)


def order_of(bench: Bench, name: str) -> Order:
    order = bench.peers[name].order
    assert order is not None
    return order


def given_to(bench: Bench, name: str) -> list[str]:
    """Whose statistics the latest order brought."""
    return [ref.member for ref in order_of(bench, name).peers]


def report(bench: Bench, name: str, row: Mapping[str, int] | None = None) -> list[Action]:
    order = order_of(bench, name)
    return bench.do(
        events.UpdateArrived(
            connection=bench.peers[name].connection, round_no=order.round_no, steps=4, train_loss=0.7, scores=(),
            measured=order.measure == "running", row=tuple(sorted((row or {}).items())),
        )
    )  # fmt: skip


def asked_by(bench: Bench, name: str) -> dict[str, int]:
    """A row that is not refused: the same of everybody whose statistics the order brought; none where it brought
    none."""
    givers = tuple(ref.member for ref in order_of(bench, name).peers)
    own = (
        0.5 if bench.rules.strategy.is_personal(bench.rules.round_plan(order_of(bench, name).round_no).phase) else None
    )
    return rows.alike(givers, name, rows.RowRule(own_share=own, max_peer_weight=0.25)) if givers else {}


def play_round(bench: Bench, *names: str) -> list[Action]:
    return [action for name in names or EVERYBODY for action in report(bench, name, asked_by(bench, name))]


def refusal(actions: list[Action]) -> str:
    (error,) = [one.message for one in find(actions, Send) if isinstance(one.message, Error)]
    assert error.code == "bad-row"
    return error.reason


def test_the_first_order_brings_everybodys_statistics_and_later_ones_none() -> None:
    bench = sealed_bench()
    assert [given_to(bench, name) for name in EVERYBODY] == [list(EVERYBODY)] * 4
    play_round(bench)
    assert [(order_of(bench, name).round_no, order_of(bench, name).peers) for name in EVERYBODY] == [(1, ())] * 4


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"a": WHOLE // 2, "b": WHOLE // 2, "c": 0, "d": 0}, "of b, expected at most 0.25 of one peer"),
        ({"a": WHOLE, "b": 0, "c": 0, "d": 0}, "of its own, expected 0.5"),
        ({"a": WHOLE // 2, "b": WHOLE // 4, "c": WHOLE // 4}, "d for one"),
        ({"a": WHOLE // 2, "b": WHOLE // 4, "c": WHOLE // 4, "d": 1}, "sums to"),
        ({}, "no row, although the order contained the statistics"),
    ],
)
def test_a_row_that_asks_for_too_much_is_refused_and_asked_for_again(row: dict[str, int], says: str) -> None:
    bench = sealed_bench()
    assert says in refusal(report(bench, "a", row))
    assert [(fact.member, fact.code) for fact in bench.facts(Refused)] == [("a", "bad-row")]
    play_round(bench, "b", "c", "d")
    assert {fact.member for fact in bench.facts(UpdateAccepted)} == {"b", "c", "d"}
    assert given_to(bench, "a") == list(EVERYBODY)
    assert order_of(bench, "a").round_no == 1


def test_a_member_that_fits_nobody_may_keep_its_own_model_if_the_strategy_isolates_it() -> None:
    bench = sealed_bench(min_similarity=0.7)
    report(bench, "a", {"a": WHOLE, "b": 0, "c": 0, "d": 0})
    (mix,) = find(play_round(bench, "b", "c", "d"), Aggregate)
    assert mix.weights[0].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_member_cannot_change_its_row_while_the_statistics_are_the_same() -> None:
    bench = sealed_bench()
    play_round(bench)
    other = {"a": WHOLE // 2, "b": WHOLE // 4, "c": WHOLE // 4, "d": 0}
    assert refusal(report(bench, "a", other)) == "a row that was not requested"


def test_a_newcomer_brings_everybody_the_statistics_for_a_new_row() -> None:
    bench = sealed_bench()
    join(bench, "e")
    play_round(bench)
    assert [given_to(bench, name) for name in EVERYBODY] == [[*EVERYBODY, "e"]] * 4


def test_rows_of_a_mix_are_whole_numbers_of_what_was_requested() -> None:
    bench = sealed_bench()
    (mix,) = find(play_round(bench), Aggregate)
    for place, row in enumerate(mix.weights):
        assert [weight * WHOLE for weight in row] == [round(weight * WHOLE) for weight in row]
        assert sum(row) == 1.0
        assert row[place] == 0.5


def test_warm_up_needs_no_rows() -> None:
    bench = sealed_bench("fedap", warmup_rounds=1)
    assert {order_of(bench, name).peers for name in EVERYBODY} == {()}
    (mix,) = find(play_round(bench), Aggregate)
    assert [list(row) for row in mix.weights] == [[0.25] * 4] * 4


def test_statistics_of_mid_run_bring_new_rows_in_the_round_after() -> None:
    """f-FedAP of 6 rounds: 0 and 1 as FedBN, by counts; round 2 measures and is mixed alike; from 3 on by W."""
    bench = sealed_bench("f-fedap", rounds=6)
    brought = []
    for _ in range(5):
        brought.append(
            {order_of(bench, name).peers[0].kind if order_of(bench, name).peers else "" for name in EVERYBODY}
        )
        play_round(bench)
    assert brought == [{"stats"}, {""}, {"stats"}, {"update-statistics"}, {""}]


def test_the_documented_table_of_algorithms_is_what_is_refused() -> None:
    refused = {name for name in STRATEGIES if sealing_objection(make_strategy(name))}
    assert refused == {"fedamp", "pfedsim", "base"}
    assert sealing_objection(make_strategy("fedap", {"robust": "limit"}))
    assert sealing_objection(make_strategy("fedap", {"neighbours": 2}))


def test_the_coordinator_knows_no_counts() -> None:
    assert {member.train_samples for member in sealed_bench().machine.state.members.values()} == {0}
