"""The exit codes of all commands and their meaning."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
"""The command succeeded. For `serve`: the run ended normally, possibly because its operator ended it."""

FAILED: Final = 1
"""The command failed: a run was aborted, nobody answered, a check failed."""

WRONG_INPUT: Final = 2
"""Invalid input, or a refusal that needs attention: the same command would end the same way."""


def cut_short_by(signal_number: int) -> int:
    """Return the exit code of a command ended by a signal: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + signal_number
