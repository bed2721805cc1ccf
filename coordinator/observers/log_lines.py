"""Logs a run: readable lines on a terminal, one JSON object per line otherwise. Every line names the run.

Events are `noun.verb` in the past tense, with details as keys; `round` and `participant` have these names everywhere.
Repeated warnings are counted, and their number is logged once a minute (`protocol.host.logs`).
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from functools import cache
from pathlib import Path

import structlog

from coordinator.config import RunConfig
from coordinator.decisions.actions import Note
from coordinator.decisions.facts import FACTS, Fact, Finished, GoodbyeAccepted, Quarantined, RoundClosed
from coordinator.decisions.progress import RunProgress
from coordinator.decisions.state import State
from coordinator.observers import Observer
from protocol.host.logs import CountRepeats, Line, LogFile

_NAMED = {
    "Began": "run.began",
    "Joined": "member.joined",
    "Returned": "member.returned",
    "Contested": "member.contested",
    "Lost": "member.lost",
    "Left": "member.left",
    "Refused": "report.refused",
    "Quarantined": "member.excluded",
    "CaughtUp": "run.caught_up",
    "Weighed": "members.weighed",
    "Paused": "run.paused",
    "Resumed": "run.resumed",
    "Finished": "run.finished",
    "Ended": "run.ended",
}
"""Facts whose class name lacks the noun."""
_LENGTHY = frozenset({"weights", "scores", "identity", "allowed", "direction"})
_LONGEST_LIST = 20
_WARNINGS = frozenset({"Contested", "Lost", "StatisticsLost", "Refused", "Quarantined", "Paused"})


class _Place:
    """Adds run, round and participant to every line: the current round if the line has none, and None if it concerns no
    participant. A structlog context would not do: contexts are per thread."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._round: object = None

    def __call__(self, _logger: object, _method: str, line: Line) -> Line:
        if line["event"] in ("round.opened", "run.resumed"):
            self._round = line.get("round")
        for name, value in (("run", self._run), ("round", self._round), ("participant", None)):
            line.setdefault(name, value)
        return line


_encoded = json.JSONEncoder(default=repr, check_circular=False).encode
"""Created once: structlog would create an encoder for every line."""


_COUNTED = frozenset({"transfer.cancelled", "connection.lost", "member.returned"})
"""Events that are not warnings but that a peer can cause at any rate."""


def configure_logs(run: str, file: Path | None = None) -> None:
    """Send all lines of this process to stderr (readable on a terminal, otherwise JSON) or to a file (JSON)."""
    place = _Place(run)
    processors: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        place,
    ]
    console = structlog.dev.ConsoleRenderer() if file is None and sys.stderr.isatty() else None

    def render(logger: object, method: str, line: Line) -> str:
        return _encoded(line) if console is None else console(logger, method, line)

    structlog.configure(
        processors=[*processors, structlog.processors.format_exc_info, CountRepeats(render, place, also=_COUNTED)],
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr if file is None else LogFile(file)),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )
    _logger.cache_clear()


@cache
def _logger() -> structlog.typing.FilteringBoundLogger:
    """Return the configured logger, bound once."""
    found: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind()
    return found


class LogLines(Observer):
    """One line for every fact, note and notice."""

    def __init__(self, config: RunConfig) -> None:
        """The log itself is configured for the whole process (`configure_logs`)."""
        continuous = config.mode == "continuous"
        self._progress = RunProgress(rounds=config.rounds, continuous=continuous, history=False)

    def on_fact(self, fact: Fact, time_s: float, state: State) -> None:
        self._progress.add(fact, time_s)
        kind = type(fact).__name__
        shown = {key: _short(getattr(fact, name)) for name, key in _shown(kind)}
        if isinstance(fact, RoundClosed):
            shown |= self._outlook(fact, time_s, state)
        write = _logger().warning if kind in _WARNINGS else _logger().info
        if isinstance(number := shown.get("round"), int):
            shown["round"] = shown_round(fact, number)
        write(event_of(fact), **shown)

    def _outlook(self, fact: RoundClosed, time_s: float, state: State) -> dict[str, object]:
        """Return the accuracy of the members' models and the estimated time left, from facts of this process only."""
        summary = self._progress.summary(fact.reported)
        left = self._progress.seconds_left([one.name for one in state.present()], time_s)
        outlook: dict[str, object] = {"seconds_left": None if left is None else round(left)}
        if summary is not None:
            outlook |= {"mean_accuracy": round(summary.mean, 4), "lowest_accuracy": round(summary.lowest, 4)}
            outlook["lowest_participant"] = summary.lowest_member
        return outlook

    def on_note(self, note: Note) -> None:
        where = {"participant": note.member, "round": None if note.round_no is None else note.round_no + 1}
        known = {name: value for name, value in where.items() if value is not None}
        _logger().info(note.event, **known, **dict(note.details))

    def on_notice(self, subject: str, sentence: str) -> None:
        if sentence:
            _logger().error(f"{subject}.problem", sentence=sentence)
        else:
            _logger().warning(f"{subject}.solved", effect="the problem is solved")


def _short(value: object) -> object:
    """Shorten a list that does not fit into a line to its first items and the number of the others."""
    if not isinstance(value, tuple) or len(value) <= _LONGEST_LIST:
        return value
    return (*value[:_LONGEST_LIST], f"and {len(value) - _LONGEST_LIST} more")


@cache
def _shown(kind: str) -> tuple[tuple[str, str], ...]:
    """Return the fields of a fact that are logged, and their keys in the line."""
    names = [field.name for field in dataclasses.fields(FACTS[kind])]
    return tuple((name, _KEYS.get(name, name)) for name in names if name not in _LENGTHY and name != "run")


def event_of(fact: Fact) -> str:
    """Return the event name of a fact. A member whose key was unlisted is removed, not excluded: it did no wrong."""
    if isinstance(fact, Quarantined) and fact.code == "unknown-key":
        return "member.removed"
    return fact_event(type(fact).__name__)


def shown_round(fact: Fact, round_no: int) -> int:
    """Return the number of a round as people count, from 1. Facts that end a run name the number of rounds trained."""
    return round_no if isinstance(fact, GoodbyeAccepted | Finished) else round_no + 1


@cache
def fact_event(kind: str) -> str:
    """Return the event name of a kind of fact: RoundClosed -> round.closed."""
    if kind in _NAMED:
        return _NAMED[kind]
    return ".".join(word.lower() for word in re.findall(r"[A-Z][a-z]+", kind))


_KEYS = {"member": "participant", "round_no": "round"}
