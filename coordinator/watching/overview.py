"""The overview of a run at one moment: its stage, members, scores, W, times, disk.

Plain values only, so that the page, metrics and `status --json` show the same. Rounds count from 1; 0 is the model that
the run started from. Pure: takes a state, its progress and the time, returns an overview.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.decisions.progress import RunProgress
from coordinator.decisions.state import Member, State, Status

_AT_WORK = {"anchor": "measuring", "train": "training", "finish": "taking its last model"}


@dataclass(frozen=True, kw_only=True)
class MemberOverview:
    """One member. round: the last one it trained; heard_s: seconds since its last message, None if unknown; accuracy:
    of the model of accuracy_round on its own test samples; bytes: as counted by the coordinator."""

    name: str
    status: str
    doing: str
    round: int
    heard_s: float | None
    train_samples: int
    test_samples: int
    accuracy: float | None
    accuracy_round: int | None
    received_bytes: int
    sent_bytes: int
    strikes: int


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """Something that happened, at a time on the run clock."""

    time_s: float
    event: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Data from outside the journal. running: whether a process serves the run, None if the system cannot tell; heard:
    time of each member's last message, on the run clock."""

    running: bool | None
    now_s: float
    received_at: Mapping[str, float]
    traffic: Mapping[tuple[str, str], int]
    disk_free_bytes: int
    disk_reserve_bytes: int
    notices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunOverview:
    """One run at one moment. round: the open or last one; waits: what it waits for, as a sentence without full stop."""

    run: str
    algorithm: str
    mode: str
    stage: str
    ended: bool
    running: bool | None
    round: int
    rounds: int
    ran_s: float
    round_open_s: float | None
    last_round_s: float | None
    seconds_left: float | None
    waits: str
    paused: str
    notices: tuple[str, ...]
    mean_accuracy: float | None
    lowest_accuracy: float | None
    lowest_member: str | None
    scored_members: int
    scores_sealed: bool
    """Whether members hide their scores from the coordinator."""
    disk_free_bytes: int
    disk_reserve_bytes: int
    members: tuple[MemberOverview, ...]
    scores: Mapping[str, tuple[tuple[int, float], ...]]
    weights_members: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    fit_nobody: tuple[tuple[str, float], ...]
    """Members that are similar to no other, each with its similarity to the most similar one."""
    events: tuple[RunEvent, ...]

    def as_json(self) -> dict[str, object]:
        """Return the overview as values for JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class RunSubject:
    """Identifies the run, from its configuration."""

    run: str
    algorithm: str
    mode: str
    rounds: int
    scores_sealed: bool = False


def overview_of(
    subject: RunSubject,
    state: State,
    progress: RunProgress,
    machine: Surroundings,
    *,
    waits: str,
    fit_nobody: tuple[tuple[str, float], ...],
    events: tuple[RunEvent, ...],
) -> RunOverview:
    """Build the overview of a run."""
    taking_part = [member.name for member in state.active()]
    summary = progress.summary(taking_part or list(state.members))
    is_open = state.is_training or state.is_measuring
    givers, weights = _weights(state)
    return RunOverview(
        run=subject.run,
        algorithm=subject.algorithm,
        mode=subject.mode,
        stage=str(state.stage),
        ended=state.ended,
        running=machine.running,
        round=min(state.round_no + (0 if state.is_enrolling else 1), subject.rounds),
        rounds=subject.rounds,
        ran_s=machine.now_s,
        round_open_s=max(machine.now_s - state.opened_at, 0.0) if is_open else None,
        last_round_s=progress.last_round_s,
        seconds_left=progress.seconds_left([one.name for one in state.present()], machine.now_s),
        waits="; ".join(filter(None, (state.sentence, waits))) if state.stage.is_over else waits,
        paused=state.paused_reason if state.paused_at is not None else "",
        notices=() if state.ended else machine.notices,
        mean_accuracy=summary.mean if summary else None,
        lowest_accuracy=summary.lowest if summary else None,
        lowest_member=summary.lowest_member if summary else None,
        scored_members=summary.members if summary else 0,
        scores_sealed=subject.scores_sealed,
        disk_free_bytes=machine.disk_free_bytes,
        disk_reserve_bytes=machine.disk_reserve_bytes,
        members=tuple(_member(member, state, progress, machine) for member in state.members.values()),
        scores={name: tuple((one.round, one.accuracy) for one in mine) for name, mine in progress.scores.items()},
        weights_members=givers,
        weights=weights,
        fit_nobody=fit_nobody,
        events=events,
    )


def _weights(state: State) -> tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]:
    """Return members and W over them: the coordinator's or, if members compute rows, the rows they requested."""
    if state.weighed is not None:
        return state.weighed_members, tuple(tuple(map(float, row)) for row in state.weighed)
    requested = {member.name: dict(member.row) for member in state.active() if member.row}
    if not requested or any(set(row) != set(requested) for row in requested.values()):
        return (), ()
    return tuple(requested), tuple(
        tuple(row[name] / sum(row.values()) for name in requested) for row in requested.values()
    )


def _member(member: Member, state: State, progress: RunProgress, machine: Surroundings) -> MemberOverview:
    score = progress.latest(member.name)
    received_at = max(machine.received_at.get(member.name, 0.0), progress.reported_at.get(member.name, 0.0)) or None
    return MemberOverview(
        name=member.name,
        status=str(member.status),
        doing=_doing(member, state),
        round=progress.updates.get(member.name, 0),
        heard_s=None if received_at is None else max(machine.now_s - received_at, 0.0),
        train_samples=member.train_samples,
        test_samples=member.test_samples,
        accuracy=score.accuracy if score else None,
        accuracy_round=score.round if score else None,
        received_bytes=machine.traffic.get((member.name, "in"), 0),
        sent_bytes=machine.traffic.get((member.name, "out"), 0),
        strikes=member.strikes,
    )


def _doing(member: Member, state: State) -> str:
    if member.status is not Status.PRESENT:
        return ""
    if member.said_goodbye:
        return "done"
    if member.order is None or member.has_answered(member.order) or state.ended:
        return "waiting"
    return _AT_WORK[member.order.kind]
