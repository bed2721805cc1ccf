"""What the operator must know while a run goes on, in a small file beside the journal: `status` reads it.

Each notice has a subject and stands for as long as it is true. Nothing depends on the file: where it cannot be written
the log still has the sentence. A new life of the process begins without notices.
"""

from __future__ import annotations

import json
from pathlib import Path

import structlog

NOTICES = "notices.json"

log = structlog.get_logger()


class Notices:
    """Those of one run that is being led."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NOTICES
        self._told: dict[str, str] = {}
        self._write()

    def tell(self, subject: str, sentence: str) -> None:
        """Let this be said of a subject; empty: nothing is wrong with it any more. Logged when it changes."""
        if self._told.get(subject, "") == sentence:
            return
        if sentence:
            self._told[subject] = sentence
            log.error(f"{subject}.wrong", sentence=sentence)
        else:
            del self._told[subject]
            log.warning(f"{subject}.right", so="what was wrong with it is over")
        self._write()

    def _write(self) -> None:
        part = self._path.with_name(f".{NOTICES}.part")
        try:
            if self._told:
                part.write_text(json.dumps(self._told))
                part.replace(self._path)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("notice.not_written", reason=str(error))


def read_notices(folder: Path) -> tuple[str, ...]:
    """The sentences that stand, or stood when the process that led the run ended."""
    try:
        told = json.loads((folder / NOTICES).read_text())
        return tuple(str(sentence) for sentence in told.values())
    except (OSError, ValueError, AttributeError):
        return ()
