"""The claim that a log that cannot be written ends nobody."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from protocol.host.logs import Unfailing


def test_a_log_on_a_full_disk_raises_nothing() -> None:
    """/dev/full takes no byte and says so when asked to keep one."""
    raw = io.FileIO(os.open(Path("/dev/full"), os.O_WRONLY), "w")
    full = io.TextIOWrapper(io.BufferedWriter(raw), line_buffering=True)
    with pytest.raises(OSError, match="No space"):
        full.write("a line\n")
    log = Unfailing(full)
    assert log.write("a line\n") == 7
    log.flush()
    with pytest.raises(OSError, match="No space"):
        full.close()
