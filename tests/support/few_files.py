"""Processes that may open few files: a block with little room, and the real coordinator under a low limit."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator.cli import main as coordinator

FILES = 192
LIMIT = "FEDAP_TEST_FILES"
"""Environment variable with another limit."""


@contextmanager
def few_descriptors(more: int) -> Iterator[None]:
    """Let this process open only so many more files than it has open, as long as the block lasts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    free = (number for number in itertools.count() if number not in taken)
    limit = next(itertools.islice(free, more, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def main() -> None:
    files = int(os.environ.get(LIMIT, FILES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    coordinator()
