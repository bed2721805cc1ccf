"""What is said to members without their asking: orders they have not been told, and heartbeats.

One rule for orders: a member is told its present order once per connection, as soon as the weights exist, unless it is
at work on an earlier one; asked for it twice, it is told again. So nothing needs to be remembered about who is owed
what after a crash, a new connection or a late mix.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.decisions.actions import Action, Forget, Send, SendOrder, step_at
from coordinator.decisions.reports import Desk
from coordinator.decisions.roster import Link, Roster
from coordinator.decisions.rules import Rules
from coordinator.decisions.state import Member, State
from coordinator.decisions.work import Work
from protocol.messages import ORDERS, REPORTS, Heartbeat, HelloRequired

_BEAT_SHARE = 0.9
"""Share of a heartbeat's period after which it may go out with others that are due: members were last spoken to at
different times, and a look at all of them for each one's heartbeat would be a look too many."""


def due(
    state: State, rules: Rules, roster: Roster, work: Work, desk: Desk, now: float, *, orders: bool = True
) -> list[Action]:
    """Everything to say now, in the order of names. orders: whether any may be given."""
    actions: list[Action] = []
    for member in state.active() if not state.ended else ():
        link = roster.link(member.name)
        if link is None or link.connection is None:
            continue
        actions += order(work, member, link, now) if orders else []
        if now >= link.spoke_at + _BEAT_SHARE * rules.pace.heartbeat_s:
            link.spoke_at = now
            beat = heartbeat(state, rules, desk, member, link)
            actions.append(Send(connection=link.connection, member=member.name, message=beat))
    return actions


def greet_anew(roster: Roster) -> list[Action]:
    """Have everybody say hello: the welcome tells what is open now."""
    actions: list[Action] = []
    for name, connection in roster.connections().items():
        roster.release(connection)
        actions.append(Send(connection=connection, member=name, message=HelloRequired()))
        actions.append(Forget(connection=connection))
    return actions


def order(work: Work, member: Member, link: Link, now: float, *, asked: bool = False) -> list[Action]:
    """A member's order, if it is time to say it."""
    present = member.order
    if present is None or member.has_answered(present) or link.connection is None:
        return []
    if present.kind == "finish" and not work.will_have(present.weights):
        present = replace(present, weights=None)  # a row that a crash or a failure lost: what was delivered stands
    link.offer(present)
    waits = link.has_told(member) or (link.is_busy(member) and present.kind != "finish")
    if not work.has(present.weights) or (waits and not asked):
        return []
    link.said, link.spoke_at = present, now
    return [SendOrder(connection=link.connection, member=member.name, order=present)]


def heartbeat(state: State, rules: Rules, desk: Desk, member: Member, link: Link) -> Heartbeat:
    """want: the report to what was said last, unless it is here already or there is no room for it."""
    again = desk.missing.wanted_of(member.name)
    if again is not None and state.paused_at is None:
        here = desk.is_inspecting(member.name, again)
        have = step_at("stats", again.round_no)  # the place before it: what we had, we have no longer
        return Heartbeat(run=rules.run, round_no=state.round_no, have=have, want=None if here else again)
    want = None
    if link.said is not None and not member.has_answered(link.said) and state.paused_at is None:
        want = step_at(REPORTS[ORDERS.index(link.said.kind)], link.said.round_no)
        if desk.is_inspecting(member.name, want):
            want = None
    return Heartbeat(run=rules.run, round_no=state.round_no, have=member.answered, want=want)
