"""Rate limit for repeated log lines: the first few are logged, later ones are counted. Pure: the caller passes the
time.

A peer that misbehaves a thousand times a second must not cause a thousand log lines. Each subject has its own window,
all subjects share one budget, and the number of subjects is limited as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 60.0
"""How long repetitions are counted before their number is logged."""

AT_ONCE: Final = 10
"""Most lines of one subject in a window."""

ALL_AT_ONCE: Final = 100
"""Most lines of all subjects in a window: at 300 bytes a line, 18 MB in ten hours of misbehaviour."""

SUBJECTS: Final = 256
"""Most subjects counted separately; further ones are counted together, under the empty name."""


@dataclass(frozen=True, kw_only=True)
class Omitted:
    """Number of lines of one subject that were not logged, and in how many seconds."""

    subject: str
    times: int
    seconds: float


@dataclass(kw_only=True)
class _Window:
    since: float
    logged: int = 0
    omitted: int = 0


class Repeats:
    """Limits one process's log lines about misbehaving peers."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}
        self._all = _Window(since=0.0)

    def __bool__(self) -> bool:
        """Whether any line is being counted."""
        return bool(self._windows)

    def admit(self, subject: str, now: float) -> bool:
        """Whether to log this line; otherwise it is counted."""
        if now >= self._all.since + WINDOW_S:
            self._all = _Window(since=now)
        if subject not in self._windows and len(self._windows) >= SUBJECTS:
            subject = ""
        window = self._windows.setdefault(subject, _Window(since=now))
        if window.logged >= AT_ONCE or self._all.logged >= ALL_AT_ONCE:
            window.omitted += 1
            return False
        window.logged += 1
        self._all.logged += 1
        return True

    def omitted(self, now: float, *, at_once: bool = False) -> list[Omitted]:
        """Return the counts of windows that are over, or with `at_once` of all windows; these windows start again."""
        over = [name for name, window in self._windows.items() if at_once or now >= window.since + WINDOW_S]
        closed = [(name, self._windows.pop(name)) for name in over]
        return [
            Omitted(subject=name, times=window.omitted, seconds=now - window.since)
            for name, window in closed
            if window.omitted
        ]
