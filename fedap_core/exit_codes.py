"""The exit codes of all commands: the one place that says which there are and what they mean."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
"""The command did what it was asked. For `serve`: the run has ended in order, also because its operator ended it."""

FAILED: Final = 1
"""It did not: a run was aborted, nobody answered, a check failed."""

WRONG_INPUT: Final = 2
"""Wrong input, or a refusal that somebody must look at: the same command would end the same way."""


def cut_short_by(signal_number: int) -> int:
    """The exit code of a command that a signal has cut short: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + signal_number
