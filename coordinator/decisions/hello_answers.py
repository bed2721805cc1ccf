"""Decides the answer to a hello: a refusal or a welcome.

Pure: takes a hello and the state, returns a refusal, or a welcome and the fact that membership changed.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.decisions import admission, instances
from coordinator.decisions.actions import SendWelcome
from coordinator.decisions.events import HelloArrived
from coordinator.decisions.facts import Fact, Joined, Returned
from coordinator.decisions.mixing_plan import next_round
from coordinator.decisions.roster import CHANGES, CHANGES_S, Roster
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, State, Status
from protocol.messages import Hello, Reject


def answer(
    event: HelloArrived, state: State, rules: Rules, roster: Roster, now: float
) -> tuple[Reject | None, Fact | None, SendWelcome | None]:
    """Return (refusal, None, None), or (None, change of membership if any, welcome)."""
    hello = event.hello
    refusal = admission.refuse_hello(hello, event.identity, state, rules)
    name = admission.name_of(hello, event.identity, state.allowed)
    if refusal is not None or name is None:
        return refusal, None, None
    known, instance = state.members.get(name), instances.digest_of(hello.instance)
    if known is not None:
        link, patience = roster.link(name), rules.pace.dead_after_s
        process = hello.process or event.connection
        refusal = instances.refuse_rival(known, link, instance, process, now=now, dead_after_s=patience)
        if refusal is not None:
            return refusal, None, None
    fact = _change(name, event.identity, hello, known, instance)
    if known is not None and fact is not None and not roster.may_change(name, now):
        if not known.is_active:
            reason = f"{name} left and rejoined {CHANGES} times within {CHANGES_S:.0f} s"
            return Reject(code="name-in-use", reason=reason, wait_s=CHANGES_S), None, None
        if known.status is Status.PRESENT and known.instance == instance:
            fact = None  # its previous sample counts stay in use
    comes_back = hello.run == rules.run  # then it has the initial model, or says hello again without naming the run
    return None, fact, SendWelcome(connection=event.connection, member=name, round_no=0, initial=not comes_back)


def _change(name: str, identity: str, hello: Hello, known: Member | None, instance: str) -> Fact | None:
    samples = {"train_samples": hello.train_samples, "test_samples": hello.test_samples}
    if known is None or not known.is_active:
        return Joined(member=name, identity=identity, software=hello.software, instance=instance, **samples)
    same = (known.train_samples, known.test_samples) == (hello.train_samples, hello.test_samples)
    same = same and known.instance == instance
    return None if same and known.status is Status.PRESENT else Returned(member=name, instance=instance, **samples)


def with_round(welcome: SendWelcome, state: State) -> SendWelcome:
    """Return the welcome with the round of the member's latest order, or of the round it will enter."""
    member = state.members[welcome.member]
    if member.order is not None:
        return replace(welcome, round_no=member.order.round_no)
    entry = state.round_no + (1 if state.in_rounds else 0)
    return replace(welcome, round_no=max(entry, next_round(member)))
