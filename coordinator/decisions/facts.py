"""Facts: what happened in a run, as recorded in the journal. The coordinator's durable state is a function of these
facts.

The machine turns what it hears (`events`) into facts and asks for each to be journalled (`actions.Persist`) before
anything that follows from it is done. Fed back into `machine.replay`, a fact changes the state exactly as it did live
and calls for nothing. Facts hold words and numbers only (texts, whole and real numbers, truth values, None, tuples of
these, and scores): tensors are named by (member, round_no) and never sit in here. Encoding is the journal's.
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
    """Somebody became a member, for the first time or again after leaving. instance: digest of its process's token;
    empty in journals of format 2."""

    member: str
    identity: str
    software: str
    train_samples: int
    test_samples: int
    instance: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Returned:
    """A member that was thought dead, or whose process started anew, is here; instance as in Joined."""

    member: str
    train_samples: int
    test_samples: int
    instance: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contested:
    """Another process than the one that has this name said hello under it and was refused; told now and again.

    instance: digest of the other's token. attempts: how many were refused since this was told last.
    """

    member: str
    instance: str
    attempts: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """A member has been silent for so long that nobody waits for it; it stays a member."""

    member: str
    silent_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """A member went on purpose; it is no member until it says hello again."""

    member: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A message of a member was not admitted. kind and round_no name the report, where it was one."""

    member: str
    code: str
    reason: str
    kind: str | None = None
    round_no: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Quarantined:
    """A member was excluded: too many refused messages, or its key was taken off the list."""

    member: str
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AllowListSet:
    """The list of admitted (identity, name) pairs changed while the run went on."""

    allowed: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EnrolmentClosed:
    """The members of the first round are known."""

    members: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuringOpened:
    """Members are asked for statistics before training starts; round_no is the round that waits for them."""

    round_no: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StatsAccepted:
    """Statistics of a member were admitted and are stored as (member, "stats", round_no)."""

    member: str
    round_no: int
    samples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsLost:
    """Admitted statistics of a member are of no use any more: their file was damaged. It measures again."""

    member: str
    round_no: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CaughtUp:
    """The folder was older than the federation, and the operator agreed to go on from what the members hold: the round
    is open again. held: (member, round of the update that it reports again)."""

    round_no: int
    held: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Weighed:
    """W over `members`, each of whom gave statistics. weights: one row per member, rows sum to 1.

    similarity: of each member to the one most like it, in [0, 1]; empty where the algorithm does not tell.
    """

    members: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    similarity: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundOpened:
    """Orders for a round exist. members: who trains in it."""

    round_no: int
    members: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateAccepted:
    """An update was admitted and is stored as (member, "update", round_no); its statistics, if any, beside it.

    distance: length of (update - what was sent), None where nothing was compared. measured: it brought statistics,
    stored as (member, "update-statistics", round_no). direction: of that step, as `fedap_core.directions` writes it;
    empty where nothing was compared, where no rule asks for it, and in journals of format 2. row: the row of W that the
    member requests, in a sealed run; empty where it was not asked for one.
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
    """One member gets a mix of its own, for its order `round_no`: it reported late, or rounds have no barrier."""

    member: str
    round_no: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundClosed:
    """A round is mixed from what is there. reason: the sentence of the quorum; missing: who was waited for in vain."""

    round_no: int
    reason: str
    reported: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StopAsked:
    """The operator asked for the end; the first time after this round, the second time at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Paused:
    """Too little disk is free to go on, or, where `reason` says so, the disk failed."""

    free_bytes: int
    needed_bytes: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumed:
    """Enough disk is free again; clocks of the open round go on from where they stood."""

    free_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """Everybody is told to stop. reason: as in the message `finish`; sentence: the same for a person."""

    reason: str
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GoodbyeAccepted:
    """A member has its last model; how good it is."""

    member: str
    round_no: int
    scores: tuple[Score, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """Nobody is waited for any more; the process may end. absent: members that never fetched their last model."""

    absent: tuple[str, ...]


MemberFact = Joined | Returned | Contested | Lost | Left | Refused | Quarantined
ReportFact = StatsAccepted | StatisticsLost | UpdateAccepted | GoodbyeAccepted
RoundFact = EnrolmentClosed | MeasuringOpened | Weighed | RoundOpened | RowPlanned | RoundClosed | CaughtUp
RunFact = Began | AllowListSet | StopAsked | Paused | Resumed | Finished | Ended
Fact = MemberFact | ReportFact | RoundFact | RunFact
"""Anything the journal keeps."""

FACTS: dict[str, type[Fact]] = {kind.__name__: kind for kind in get_args(Fact)}
"""Every kind of fact by the name the journal knows it under."""
