"""A coordinator that may open few files: the real command under a low limit of descriptors."""

from __future__ import annotations

import resource

from coordinator.cli import main as coordinator

FILES = 128


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    coordinator()
