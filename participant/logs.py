"""What keeps a participant's log small: a file that is put aside when it has become large, and repetitions as a number.

Warnings that come again and again are counted, and their number is told once a minute (`protocol.repeats`): a
coordinator that misbehaves must not fill this machine's disk.
"""

from __future__ import annotations

import logging
import logging.handlers
import threading
import time
from collections.abc import MutableMapping
from pathlib import Path

import structlog

from fedap_core.errors import InvalidInput
from protocol.repeats import Repeats

FILE_BYTES = 10 << 20
FILES_KEPT = 5
"""A log file is put aside when it has become so large, and so many older ones are kept."""

_COUNTED = frozenset({"message.withheld", "line.lost", "line.opened"})
"""Lines that are no warnings and that a coordinator can cause as often as it likes."""

Line = MutableMapping[str, object]


class _Rotating(logging.handlers.RotatingFileHandler):
    """A full disk loses lines and ends nobody."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """Nothing can be said about it here."""


class LogFile:
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


class Counted:
    """Renders a line, with what is due to be told of earlier ones before it; drops what came too often."""

    def __init__(self, render: structlog.typing.Processor, complete: structlog.typing.Processor) -> None:
        """complete: gives the lines that are made here what every line has."""
        self._render, self._complete = render, complete
        self._repeats = Repeats()
        self._lock = threading.Lock()

    def __call__(self, logger: object, method: str, line: Line) -> str:
        now, event = time.monotonic(), str(line["event"])
        with self._lock:
            counts = method not in ("debug", "info") or event in _COUNTED
            told = not counts or self._repeats.admit(f"{event} {line.get('participant') or ''}".strip(), now)
            due = self._repeats.untold(now)
        if not told and not due:
            raise structlog.DropEvent
        stamp = {"level": "warning", "timestamp": line.get("timestamp")}
        lines: list[Line] = [
            {"event": "lines.counted", "of": one.subject or "others", "more": one.times, "seconds": round(one.seconds)}
            for one in due
        ]
        for one in lines:
            self._complete(logger, method, one)
            one.update(stamp)
        lines += [line] if told else []
        return "\n".join(str(self._render(logger, method, one)) for one in lines)
