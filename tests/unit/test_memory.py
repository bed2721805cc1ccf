"""Freed blocks of a report's size are used again: the next one costs no page faults."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS = """
import resource
from protocol.host.memory import keep_freed_memory
if {keep}:
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    blocks = [bytearray(1_000_000) for _ in range(4)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 4 * 1_000_000 // 4096


def faults(*, keep: bool) -> int:
    found = subprocess.run(
        [sys.executable, "-c", FAULTS.format(keep=keep)], capture_output=True, text=True, check=True
    )  # fmt: skip
    return int(found.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_a_block_of_freed_memory_is_filled_again_without_page_faults() -> None:
    """Four megabytes are 976 pages. A hundred times fresh pages would be far more than ten times as many faults."""
    assert faults(keep=True) < 3 * PAGES < 10 * PAGES < faults(keep=False)
