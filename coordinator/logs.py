"""How the shells log: readable on a terminal, one JSON object per line otherwise. Every line carries the run.

Lines are `noun.verb` in the past with facts as keys; `round` and `participant` stand under these names everywhere.
Warnings that come again and again are counted, and their number is told once a minute (`protocol.repeats`).
"""

from __future__ import annotations

import dataclasses
import json
import logging
import logging.handlers
import re
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from functools import cache
from pathlib import Path

import structlog

from coordinator.decisions.actions import Note
from coordinator.decisions.facts import FACTS, Fact
from fedap_core.errors import InvalidInput
from protocol.repeats import Repeats

_NAMED = {
    "Began": "run.began",
    "Joined": "member.joined",
    "Returned": "member.returned",
    "Contested": "member.contested",
    "Lost": "member.lost",
    "Left": "member.left",
    "Refused": "report.refused",
    "Quarantined": "member.quarantined",
    "CaughtUp": "run.caught_up",
    "Weighed": "members.weighed",
    "Paused": "run.paused",
    "Resumed": "run.resumed",
    "Finished": "run.finished",
    "Ended": "run.ended",
}
"""Facts whose class name lacks the noun."""
_LENGTHY = frozenset({"weights", "scores", "identity", "allowed"})
_LONGEST_LIST = 20
_WARNINGS = frozenset({"Contested", "Lost", "StatisticsLost", "Refused", "Quarantined", "Paused"})


class _Place:
    """Lets every line say of which run, round and participant it is: the present round where it says none itself, and
    nothing where it is of no participant. Threads have contexts of their own, so this is not left to those."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._round: object = None

    def __call__(self, _logger: object, _method: str, line: MutableMapping[str, object]) -> MutableMapping[str, object]:
        if line["event"] in ("round.opened", "run.resumed"):
            self._round = line.get("round")
        for name, value in (("run", self._run), ("round", self._round), ("participant", None)):
            line.setdefault(name, value)
        return line


_encoded = json.JSONEncoder(default=repr, check_circular=False).encode
"""Made once: structlog would have one made for every line."""


FILE_BYTES = 10 << 20
FILES_KEPT = 5
"""A log file is put aside when it has become so large, and so many older ones are kept: 60 MB in all. The journal is
the record; the log is for whoever looks for the cause of something."""

_COUNTED = frozenset({"transfer.cancelled", "connection.lost", "member.returned"})
"""Lines that are no warnings and that a peer can cause as often as it likes."""

Line = MutableMapping[str, object]


class _Rotating(logging.handlers.RotatingFileHandler):
    """A full disk loses lines and ends nobody."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """Nothing can be said about it here."""


class _File:
    """What structlog prints to, where a file was asked for."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handler = _Rotating(path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT)
        except OSError as error:
            raise InvalidInput("log-file", str(path), "a file that can be written", str(error)) from error

    def write(self, text: str) -> None:
        if text != "\n":  # the handler ends every line itself
            self._handler.handle(logging.makeLogRecord({"msg": text}))

    def flush(self) -> None:
        self._handler.flush()


class _Counted:
    """Renders a line, with what is due to be told of earlier ones before it; drops what came too often."""

    def __init__(self, render: Callable[[Line], str], place: _Place) -> None:
        self._render, self._place = render, place
        self._repeats = Repeats()
        self._lock = threading.Lock()

    def __call__(self, _logger: object, method: str, line: Line) -> str:
        now, event = time.monotonic(), str(line["event"])
        who = line.get("participant") or line.get("address") or ""
        with self._lock:
            counts = method not in ("debug", "info") or event in _COUNTED
            told = not counts or self._repeats.admit(f"{event} {who}".strip(), now)
            due = self._repeats.untold(now, at_once=event == "coordinator.ended")
        if not told and not due:
            raise structlog.DropEvent
        stamp = {"timestamp": line.get("timestamp"), "level": "warning"}
        lines: list[Line] = [
            {"event": "lines.counted", "of": one.subject or "others", "more": one.times, "seconds": round(one.seconds)}
            for one in due
        ]
        rendered = [self._render(self._place(None, method, {**one, **stamp})) for one in lines]
        return "\n".join([*rendered, *([self._render(line)] if told else [])])


def configure_logs(run: str, file: Path | None = None) -> None:
    """Send all lines of this process to stderr, in the form that suits who reads it, or to a file, as JSON."""
    place = _Place(run)
    processors: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        place,
    ]
    console = structlog.dev.ConsoleRenderer() if file is None and sys.stderr.isatty() else None

    def render(line: Line) -> str:
        return _encoded(line) if console is None else console(None, "", line)

    structlog.configure(
        processors=[*processors, structlog.processors.format_exc_info, _Counted(render, place)],
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr if file is None else _File(file)),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )
    _logger.cache_clear()


@cache
def _logger() -> structlog.typing.FilteringBoundLogger:
    """The logger as it is configured, put together once."""
    found: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind()
    return found


def log_fact(fact: Fact) -> None:
    """One line for something the journal keeps."""
    kind = type(fact).__name__
    shown = {key: _short(getattr(fact, name)) for name, key in _shown(kind)}
    say = _logger().warning if kind in _WARNINGS else _logger().info
    say(fact_event(kind), **shown)


def log_note(note: Note) -> None:
    """One line that the machine asks for and that is kept nowhere else."""
    where = {"participant": note.member, "round": note.round_no}
    known = {name: value for name, value in where.items() if value is not None}
    _logger().info(note.event, **known, **dict(note.details))


def _short(value: object) -> object:
    """A list that fits into a line; of a longer one its beginning and how many more there are."""
    if not isinstance(value, tuple) or len(value) <= _LONGEST_LIST:
        return value
    return (*value[:_LONGEST_LIST], f"and {len(value) - _LONGEST_LIST} more")


@cache
def _shown(kind: str) -> tuple[tuple[str, str], ...]:
    """Fields of a fact that a line holds, and their names there."""
    names = [field.name for field in dataclasses.fields(FACTS[kind])]
    return tuple((name, _KEYS.get(name, name)) for name in names if name not in _LENGTHY and name != "run")


@cache
def fact_event(kind: str) -> str:
    """RoundClosed -> round.closed."""
    if kind in _NAMED:
        return _NAMED[kind]
    return ".".join(word.lower() for word in re.findall(r"[A-Z][a-z]+", kind))


_KEYS = {"member": "participant", "round_no": "round"}
