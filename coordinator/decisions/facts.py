"""Facts: what happened in a run, as recorded in the journal. The coordinator's durable state is a function of these
facts.

The machine turns `events` into facts and requests that each is journalled (`actions.Persist`) before anything that
follows from it is done. Passed to `machine.replay`, a fact changes the state exactly as it did live and causes no
action. Facts hold strings, numbers, booleans, None, tuples of these, and scores only; tensors are named by (member,
round_no). The journal encodes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from protocol.messages import Score


@dataclass(frozen=True, kw_only=True, slots=True)
class Began:
    """The run clock started: enrolment is open."""

    run: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """A participant became a member, for the first time or again after leaving. instance: digest of its process's
    token; empty in journals of format 2."""

    member: str
    identity: str
    software: str
    train_samples: int
    test_samples: int
    instance: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Returned:
    """A member that was considered lost, or whose process restarted, is back. instance: as in Joined."""

    member: str
    train_samples: int
    test_samples: int
    instance: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contested:
    """A process other than the one that holds this name said hello under it and was refused; journalled at intervals.

    instance: digest of the other process's token. attempts: hellos refused since the last such fact.
    """

    member: str
    instance: str
    attempts: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """A member was silent for so long that the run no longer waits for it; it stays a member."""

    member: str
    silent_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """A member left on purpose; it is not a member until it says hello again."""

    member: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A message of a member was refused. kind and round_no identify it if it was a report."""

    member: str
    code: str
    reason: str
    kind: str | None = None
    round_no: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Quarantined:
    """A member was excluded: too many refused messages, or its key was removed from the list."""

    member: str
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AllowListSet:
    """The list of admitted (identity, name) pairs changed during the run."""

    allowed: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EnrolmentClosed:
    """The members of the first round are known."""

    members: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuringOpened:
    """Members are asked for statistics before training; round_no is the round that waits for them."""

    round_no: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StatsAccepted:
    """Statistics of a member were admitted and are stored as (member, "stats", round_no)."""

    member: str
    round_no: int
    samples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsLost:
    """The file of a member's admitted statistics was damaged or lost. The member measures again."""

    member: str
    round_no: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CaughtUp:
    """The folder was older than the federation, and the operator agreed to continue from the rounds that the members
    hold: the round is open again. held: (member, round of the update that it reports again)."""

    round_no: int
    held: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Weighed:
    """W was computed over `members`, all of which sent statistics. weights: one row per member, rows sum to 1.

    similarity: of each member to the most similar other, in [0, 1]; empty if the algorithm does not compute it.
    """

    members: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    similarity: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundOpened:
    """A round was opened, and its orders exist. members: those that train in it."""

    round_no: int
    members: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateAccepted:
    """An update was admitted and is stored as (member, "update", round_no).

    distance: length of (update - weights sent), None if not compared. measured: it included statistics, stored as
    (member, "update-statistics", round_no). direction: of that step, as `fedap_core.directions` encodes it; empty if
    not compared, if no rule needs it, and in journals of format 2. row: the row of W that the member requests in a
    sealed run; empty if it was not asked for one.
    """

    member: str
    round_no: int
    steps: int
    train_loss: float | None
    scores: tuple[Score, ...]
    measured: bool
    distance: float | None
    direction: str = ""
    row: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RowPlanned:
    """One member gets a separate mix for its order `round_no`: it reported late, or rounds have no barrier."""

    member: str
    round_no: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundClosed:
    """A round was closed and is mixed from the updates present. reason: the quorum's sentence; missing: members that
    did not report in time."""

    round_no: int
    reason: str
    reported: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StopAsked:
    """The operator asked to stop: the first time after this round, the second time at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Paused:
    """The run paused: too little disk space is free or, if `reason` says so, the disk failed."""

    free_bytes: int
    needed_bytes: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumed:
    """Enough disk space is free again; the time of the pause does not count for the open round."""

    free_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The run is over, and every member is sent `finish`. reason: as in that message; sentence: the same in words."""

    reason: str
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GoodbyeAccepted:
    """A member has its final model and reported its scores."""

    member: str
    round_no: int
    scores: tuple[Score, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The run no longer waits for any member; the process may exit. absent: members that never fetched their final
    model."""

    absent: tuple[str, ...]


MemberFact = Joined | Returned | Contested | Lost | Left | Refused | Quarantined
ReportFact = StatsAccepted | StatisticsLost | UpdateAccepted | GoodbyeAccepted
RoundFact = EnrolmentClosed | MeasuringOpened | Weighed | RoundOpened | RowPlanned | RoundClosed | CaughtUp
RunFact = Began | AllowListSet | StopAsked | Paused | Resumed | Finished | Ended
Fact = MemberFact | ReportFact | RoundFact | RunFact
"""Any entry of the journal."""

FACTS: dict[str, type[Fact]] = {kind.__name__: kind for kind in get_args(Fact)}
"""Every kind of fact by its name in the journal."""
