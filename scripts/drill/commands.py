"""How the drill runs the system's own tools: by name, with their complaint when they fail."""

from __future__ import annotations

import shutil
import subprocess


class ToolFailed(RuntimeError):
    """A tool is missing or refused."""


def run_tool(*words: str) -> str:
    """What it prints; ToolFailed with what it complains of."""
    found = shutil.which(words[0])
    if found is None:
        raise ToolFailed(f"{words[0]} is not installed")
    done = subprocess.run([found, *words[1:]], capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        raise ToolFailed(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout
