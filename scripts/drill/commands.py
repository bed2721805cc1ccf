"""Runs system tools by name; a failure carries the tool's error message."""

from __future__ import annotations

import shutil
import subprocess


class ToolFailed(RuntimeError):
    """A tool is missing or failed."""


def run_tool(*words: str) -> str:
    """Run a tool and return its output; raises ToolFailed with its error message."""
    found = shutil.which(words[0])
    if found is None:
        raise ToolFailed(f"{words[0]} is not installed")
    done = subprocess.run([found, *words[1:]], capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        raise ToolFailed(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout
