"""Writes notices for the operator to a small file next to the journal; `status` reads it.

Each notice has a subject and stays in the file as long as it applies. Nothing depends on the file: if it cannot be
written, the log still has the notice. A new process starts without notices.
"""

from __future__ import annotations

import json
from pathlib import Path

import structlog

from coordinator.config import RunConfig
from coordinator.observers import Observer

NOTICES = "notices.json"

log = structlog.get_logger()


class NoticeFile(Observer):
    """The notices of one run."""

    def __init__(self, config: RunConfig) -> None:
        self._path = config.folder / NOTICES
        self._notices: dict[str, str] = {}
        self._write()

    def on_notice(self, subject: str, sentence: str) -> None:
        self._notices[subject] = sentence
        self._write()

    def _write(self) -> None:
        standing = {subject: sentence for subject, sentence in self._notices.items() if sentence}
        part = self._path.with_name(f".{NOTICES}.part")
        try:
            if standing:
                part.write_text(json.dumps(standing))
                part.replace(self._path)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("notice.not_written", reason=str(error))


def read_notices(folder: Path) -> tuple[str, ...]:
    """Return the notices that apply, or applied when the run's process ended."""
    try:
        found = json.loads((folder / NOTICES).read_text())
        return tuple(str(sentence) for sentence in found.values())
    except (OSError, ValueError, AttributeError):
        return ()
