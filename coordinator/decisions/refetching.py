"""Reports that were admitted and whose files are of no use any more: whose they are, and whether they can still be had.

A participant keeps its latest report and says it again when a heartbeat wants it; so a damaged update costs nothing but
time as long as its member has not finished the round after. All of it belongs to one life of the process: the journal
has the reports as facts, and these stay true.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.decisions.actions import BlobRef, step_at
from coordinator.decisions.facts import StatisticsLost
from coordinator.decisions.state import State
from protocol.messages import ORDERS, Heartbeat, Step

_TRAIN = ORDERS.index("train")


class Missing:
    """What is asked for again. A report is known by its update: statistics that came along come along again."""

    def __init__(self) -> None:
        self._gone: dict[BlobRef, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._gone)

    def take(self, state: State, refs: Iterable[BlobRef]) -> list[StatisticsLost]:
        """Ask for these; statistics are not kept by members, and the facts that call for measuring again come back."""
        lost = []
        for ref in refs:
            if ref.kind != "stats":
                self.add(ref)
            elif ref.member in state.members and state.members[ref.member].statistics == ref:
                lost.append(StatisticsLost(member=ref.member, round_no=ref.round_no))
        return lost

    def add(self, ref: BlobRef) -> None:
        self._gone.setdefault(ref, False)

    def found(self, member: str, step: Step) -> None:
        """The report is here again, with all that belongs to it."""
        self._gone = {ref: gone for ref, gone in self._gone.items() if not _is_of(ref, member, step)}

    def is_missing(self, member: str, step: Step) -> bool:
        """Whether this report would be taken although it was admitted before."""
        return any(_is_of(ref, member, step) for ref in self._gone)

    def wanted_of(self, member: str) -> Step | None:
        """The report to ask a member for."""
        rounds = [ref.round_no for ref, gone in self._gone.items() if ref.member == member and not gone]
        return step_at("update", max(rounds)) if rounds else None

    def heard(self, member: str, beat: Heartbeat) -> None:
        """A member whose kept order is a later one has forgotten what it reported before."""
        if beat.have is not None:
            for ref in self._gone:
                if ref.member == member:
                    self._gone[ref] = beat.have.place > (ref.round_no, _TRAIN)

    def among(self, refs: Iterable[BlobRef]) -> bool:
        """Whether any of these is missing: nothing can be made of them yet."""
        return any(ref in self._gone for ref in refs)

    def lost_among(self, refs: Iterable[BlobRef]) -> BlobRef | None:
        """One of these that its member no longer holds, either."""
        return next((ref for ref in refs if self._gone.get(ref, False)), None)


def _is_of(ref: BlobRef, member: str, step: Step) -> bool:
    return ref.member == member and ref.round_no == step.round_no and step.kind == "update"
