"""Detects that members are ahead of the run's folder: an old copy was restored, or the journal was lost.

Every order is journalled before it is sent, so a member with a later order proves that the folder is older than the
federation. A single member may be wrong or lie; if most are ahead, the run waits for its operator. If the operator
agrees, the run continues from what the members hold: the latest round that any of them finished is opened again, those
that finished it report again, and nobody trains a round twice. Pure; what members report is kept in memory only.
"""

from __future__ import annotations

from coordinator.decisions import quorum
from coordinator.decisions.actions import Stop
from coordinator.decisions.facts import CaughtUp, EnrolmentClosed, Fact
from coordinator.decisions.modes import Mode
from coordinator.decisions.roster import Roster
from coordinator.decisions.state import Member, State
from protocol.messages import Heartbeat

_SHOWN_NAMES = 5


class OlderFolder:
    """The members' latest heartbeats. accepted: the operator agreed to continue from what the members hold."""

    def __init__(self, mode: Mode, *, accepted: bool = False) -> None:
        self._mode = mode
        self._rules = mode.rules
        self._beats: dict[str, Heartbeat] = {}
        self._suspects: set[str] = set()
        """Members that were ahead at their latest heartbeat. Others cannot be, because the journal only grows."""
        self.accepted = accepted

    def received(self, state: State, member: Member, beat: Heartbeat) -> None:
        """Note a heartbeat. Takes constant time: called for every heartbeat."""
        self._beats[member.name] = beat
        if self._rounds_ahead(state, member) > 0:
            self._suspects.add(member.name)
        else:
            self._suspects.discard(member.name)

    def ahead(self, state: State) -> dict[str, int]:
        """Return the members ahead of the journal, and by how many rounds."""
        known = (state.members[name] for name in self._suspects if name in state.members)
        found = {one.name: self._rounds_ahead(state, one) for one in known if one.is_active}
        return {name: rounds for name, rounds in found.items() if rounds > 0}

    def _rounds_ahead(self, state: State, member: Member) -> int:
        have = self._beats[member.name].have
        if have is None or state.stage.is_over:
            return 0
        if state.is_enrolling or have.kind == "finish":
            return max(have.round_no - state.round_no, 1)
        if state.in_rounds and self._mode.answers_individually(state.round_no):
            ordered = -1 if member.order is None else member.order.round_no
            answered = -1 if member.answered is None else member.answered.round_no
            return have.round_no - max(ordered, answered + 1)
        latest = (state.round_no, 0) if state.is_measuring else (state.round_no + 1, 0)
        return max(have.round_no - state.round_no, 1) if have.place > latest else 0

    def holds(self, state: State) -> bool:
        """Whether the run makes no decisions: most members are ahead, or it is collecting what they hold."""
        if self.accepted or not self._suspects:
            return self.accepted
        return 2 * len(self.ahead(state)) > len(state.active())

    def sentence(self, state: State) -> str:
        """Return what the operator must know; empty if no member is ahead."""
        ahead = self.ahead(state)
        if not ahead:
            return ""
        names = sorted(ahead)
        shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
        rounds, who = max(ahead.values()), f"{len(ahead)} of {len(state.active())} members ({shown})"
        found = f"the folder is older than the federation by {rounds} round{'s' if rounds > 1 else ''}: {who} are ahead"
        if obstacle := self.obstacle(state):
            return f"{found} of its journal in round {state.round_no + 1}. The run cannot continue: {obstacle}"
        waits = "; the run waits" if self.holds(state) else ""
        return f"{found} of its journal in round {state.round_no + 1}{waits}"

    def halts(self, state: State) -> list[Stop]:
        """After the operator agreed: stop if most members have already received `finish`."""
        known = (one.name for one in state.active())
        finished = sum(name in self._beats and _is_finish(self._beats[name]) for name in known)
        if not self.accepted or 2 * finished <= max(len(state.active()), self._rules.members.at_least):
            return []
        return [Stop(aborted=True, sentence=self.sentence(state), halted=True, obstacle=self.obstacle(state))]

    def next_fact(self, state: State, roster: Roster, now: float, *, missing: bool) -> Fact | None:
        """After the operator agreed: return the fact to apply once every present member has reported what it holds.
        Clears `accepted` if nothing has to be recovered. missing: stored reports are damaged."""
        if state.stage.is_over:
            self.accepted = False
            return None
        if not state.enrolled:
            verdict = quorum.enrolment(state, self._rules, now)
            names = tuple(member.name for member in state.active())
            return EnrolmentClosed(members=names, reason=verdict.reason) if verdict.ready else None
        if not all(self._has_reported(member, roster, now) for member in state.active()):
            return None
        if not (self.ahead(state) or missing):
            self.accepted = False
            return None
        held = self._held(state)
        if not held or self.obstacle(state):
            return None
        latest = max(held.values())
        if not self._mode.answers_individually(latest):
            held = {name: round_no for name, round_no in held.items() if round_no == latest}
        self.accepted = False
        self._beats.clear()
        self._suspects.clear()
        return CaughtUp(round_no=latest, held=tuple(sorted(held.items())))

    def _has_reported(self, member: Member, roster: Roster, now: float) -> bool:
        """Whether the member has reported what it holds and works on nothing later, or is absent."""
        link, beat = roster.link(member.name), self._beats.get(member.name)
        if link is None or now >= link.received_at + self._rules.pace.dead_after_s:
            return True
        if beat is None or link.connection is None:
            return False
        return beat.want is not None or (beat.have is not None and beat.have.round_no >= beat.round_no)

    def _held(self, state: State) -> dict[str, int]:
        """Return the round of the update that each member can report again."""
        steps = {one.name: self._beats[one.name].have for one in state.active() if one.name in self._beats}
        return {name: step.round_no for name, step in steps.items() if step is not None and step.kind == "train"}

    def obstacle(self, state: State) -> str:
        """Return why the run cannot continue from what members hold; empty if it can."""
        if any(map(_is_finish, self._beats.values())):
            return "members were already told to finish and have their last models; restore the newer folder"
        warmup, held = self._rules.warmup_rounds, self._held(state)
        if warmup and held and max(held.values()) >= warmup and state.anchor is None:
            return "the anchor from the warm-up is lost; restore the newer folder"
        return ""


def _is_finish(beat: Heartbeat) -> bool:
    return beat.have is not None and beat.have.kind == "finish"
