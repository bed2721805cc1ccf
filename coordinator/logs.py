"""How the shells log: readable on a terminal, one JSON object per line otherwise. Every line carries the run.

Lines are `noun.verb` in the past with facts as keys; `round` and `participant` stand under these names everywhere.
"""

from __future__ import annotations

import dataclasses
import re
import sys

import structlog

from coordinator.actions import Note
from coordinator.facts import Fact

_NAMED = {
    "Began": "run.began",
    "Joined": "member.joined",
    "Returned": "member.returned",
    "Lost": "member.lost",
    "Left": "member.left",
    "Refused": "report.refused",
    "Quarantined": "member.quarantined",
    "Weighed": "members.weighed",
    "Paused": "run.paused",
    "Resumed": "run.resumed",
    "Finished": "run.finished",
    "Ended": "run.ended",
}
"""Facts whose class name lacks the noun."""
_LENGTHY = frozenset({"weights", "scores", "identity", "allowed"})
_WARNINGS = frozenset({"Lost", "Refused", "Quarantined", "Paused"})


def configure_logs(run: str) -> None:
    """Send all lines of this process to stderr, in the form that suits who reads it."""
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    terminal = sys.stderr.isatty()
    last = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*processors, structlog.processors.format_exc_info, last],
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(run=run)


def log_fact(fact: Fact) -> None:
    """One line for something the journal keeps."""
    kind = type(fact).__name__
    fields = {field.name: getattr(fact, field.name) for field in dataclasses.fields(fact)}  # type: ignore[arg-type]
    shown = {_KEYS.get(name, name): value for name, value in fields.items() if name not in _LENGTHY and name != "run"}
    level = "warning" if kind in _WARNINGS else "info"
    getattr(structlog.get_logger(), level)(fact_event(kind), **shown)


def log_note(note: Note) -> None:
    """One line that the machine asks for and that is kept nowhere else."""
    where = {"participant": note.member, "round": note.round_no}
    known = {name: value for name, value in where.items() if value is not None}
    structlog.get_logger().info(note.event, **known, **dict(note.details))


def fact_event(kind: str) -> str:
    """RoundClosed -> round.closed."""
    if kind in _NAMED:
        return _NAMED[kind]
    return ".".join(word.lower() for word in re.findall(r"[A-Z][a-z]+", kind))


_KEYS = {"member": "participant", "round_no": "round"}
