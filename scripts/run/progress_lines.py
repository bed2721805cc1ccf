"""Progress lines for long commands: one at the start, then one every few seconds, on any output."""

from __future__ import annotations

import time
from collections.abc import Callable

EVERY_S = 10.0


class ProgressLines:
    """Prints at most one line per EVERY_S; the others are not even built. say: receives the lines; default: nobody."""

    def __init__(
        self, print_line: Callable[[str], None] = lambda _line: None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._print = print_line
        self._clock = clock
        self._due = clock()

    def offer(self, line: Callable[[], str]) -> None:
        """Print a line if one is due."""
        now = self._clock()
        if now >= self._due:
            self._due = now + EVERY_S
            self._print(line())
