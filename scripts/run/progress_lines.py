"""Lines of progress for commands that take long: one at the beginning, then one every few seconds, on any output."""

from __future__ import annotations

import time
from collections.abc import Callable

EVERY_S = 10.0


class ProgressLines:
    """Passes on at most one line in EVERY_S; the others are not even made. say: where lines go; by default nowhere."""

    def __init__(
        self, say: Callable[[str], None] = lambda _line: None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._print = say
        self._clock = clock
        self._due = clock()

    def offer(self, line: Callable[[], str]) -> None:
        """A line, if one is due."""
        now = self._clock()
        if now >= self._due:
            self._due = now + EVERY_S
            self._print(line())
