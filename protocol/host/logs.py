"""Keeps a process's log small, and the process alive whatever happens to its output: rotates the file at a maximum
size, counts repeated lines, and ignores errors of stdout and stderr.

Repeated warnings are counted, and their number is logged once a minute (`protocol.repeats`): a peer that misbehaves
must not fill this machine's disk.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
import threading
import time
from collections.abc import Collection, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast

import structlog

from fedap_core.errors import InvalidInput
from protocol.repeats import Repeats

FILE_BYTES = 10 << 20
FILES_KEPT = 5
"""A log file is rotated at this size, and this many older ones are kept: 60 MB in total."""

Line = MutableMapping[str, object]


class Unfailing:
    """A stream that ignores write errors: output to a full disk or a closed pipe is lost, but the process continues."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def make_output_unfailing() -> None:
    """Let nothing that is printed end this process, also if it was started with closed streams: a run lasts longer than
    the terminal or the disk that its output goes to."""
    sys.stdout, sys.stderr = (_unfailing(stream) for stream in (sys.stdout, sys.stderr))


def _unfailing(stream: TextIO | None) -> TextIO:
    if stream is None:
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as the process lives
    return cast(TextIO, Unfailing(stream))


class _Rotating(logging.handlers.RotatingFileHandler):
    """On a full disk, loses lines instead of ending the process."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """Ignore the error: a failing log cannot be logged."""


class LogFile:
    """The file that structlog prints to, if one is configured."""

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
        with suppress(OSError):  # the handler has lost the line already
            self._handler.flush()


class CountRepeats:
    """The last processor of a log: renders a line, preceded by the counts of repeated lines that are due."""

    def __init__(
        self, render: structlog.typing.Processor, complete: structlog.typing.Processor, *, also: Collection[str]
    ) -> None:
        """complete: adds the fields that every line has. also: events that are counted although they are not warnings,
        because a peer can cause them at any rate."""
        self._render, self._complete, self._also = render, complete, also
        self._repeats = Repeats()
        self._lock = threading.Lock()

    def __call__(self, logger: object, method: str, line: Line) -> str:
        now, event = time.monotonic(), str(line["event"])
        counts = method not in ("debug", "info") or event in self._also
        if not counts and not self._repeats:
            return str(self._render(logger, method, line))
        who = line.get("participant") or line.get("address") or ""
        with self._lock:
            shown = not counts or self._repeats.admit(f"{event} {who}".strip(), now)
            due = self._repeats.omitted(now, at_once=event == "coordinator.ended")
        if not shown and not due:
            raise structlog.DropEvent
        lines: list[Line] = [
            {"event": "lines.counted", "of": one.subject or "others", "more": one.times, "seconds": round(one.seconds)}
            for one in due
        ]
        for one in lines:
            self._complete(logger, method, one)
            one.update(timestamp=line.get("timestamp"), level="warning")
        lines += [line] if shown else []
        return "\n".join(str(self._render(logger, method, one)) for one in lines)
