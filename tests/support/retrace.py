"""Recompute the models of a run from its journal.

A continuous run does not follow from its seed: the order of reports decides what is mixed. The journal has that order,
and training follows from (seed, participant, round); so the facts are fed through the coordinator's machine as on
recovery, and the training and mixing that they imply are done again.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.decisions.actions import Aggregate, Order
from coordinator.decisions.continuous import mode_of
from coordinator.decisions.facts import Fact, UpdateAccepted
from coordinator.decisions.machine import RoundMachine
from coordinator.decisions.work import PendingWork
from fedap_core.errors import InvalidInput
from protocol.messages import Step
from scripts.engines.virtual_members import VirtualFederation


def retrace(federation: VirtualFederation, facts: Iterable[tuple[Fact, float]]) -> None:
    """Give every virtual member the model that it had after these facts."""
    machine, work, bench = RoundMachine(federation.rules), PendingWork(mode_of(federation.rules)), federation.bench
    for fact, now in facts:
        if isinstance(fact, UpdateAccepted):
            _train(machine, federation, fact)
        machine.replay(fact, now)
        for action in work.due(machine.state, now):
            if isinstance(action, Aggregate):  # W itself is a fact
                work.mixed(bench.mix(action).ticket)
        bench.collect(work.collect(machine.state, frozenset()))
    for member in machine.state.active():
        if member.order is not None and member.order.kind == "finish":
            federation.homes[member.name].deliver(member.order.round_no, bench.weights(member.order.weights))


def _train(machine: RoundMachine, federation: VirtualFederation, fact: UpdateAccepted) -> None:
    """Train the round of an update, from the weights of the order that it answers."""
    home = federation.homes[fact.member]
    order = _order_for(machine, fact)
    home.deliver(order.round_no, federation.bench.weights(order.weights))
    report = home.train(order)
    federation.bench.put_update(fact.member, fact.round_no, home.client.shared, report.stats)


def _order_for(machine: RoundMachine, fact: UpdateAccepted) -> Order:
    member, step = machine.state.members[fact.member], Step(kind="train", round_no=fact.round_no)
    for order in (member.order, member.earlier):
        if order is not None and order.step == step:
            return order
    raise InvalidInput("journal", f"an update of {fact.member} for round {fact.round_no}", "one that was ordered")
