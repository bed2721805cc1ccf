"""The run clock: seconds during which a coordinator of this run was running and not suspended.

Deadlines use it, so it stands still when members are not at fault: while no coordinator runs, and while this process
was suspended or delayed far longer than a step should take. Messages received meanwhile wait in the socket and must be
read before any member counts as silent. Pure except for the clock passed in.
"""

from __future__ import annotations

from collections.abc import Callable


class RunClock:
    """clock: of this process; ran_s: run time of earlier processes; stall_s: longer delays do not count."""

    def __init__(self, clock: Callable[[], float], *, ran_s: float, stall_s: float) -> None:
        self._clock = clock
        self._stall_s = stall_s
        self._checked_at = clock()
        self._zero = self._checked_at - ran_s
        self._latest_s = ran_s

    def now(self) -> float:
        """Return the run time in seconds; it never goes back."""
        self._latest_s = max(self._latest_s, self._clock() - self._zero)
        return self._latest_s

    def forgive_stall(self, meant_s: float | None) -> float:
        """Call after a step that should have taken at most `meant_s` since the last call (None: any time). Returns the
        seconds that do not count because the step took far longer."""
        took_s = self._clock() - self._checked_at
        self._checked_at += took_s
        held_up_s = 0.0 if meant_s is None else took_s - meant_s
        if held_up_s <= self._stall_s:
            return 0.0
        unread_s = self._checked_at - self._zero - self._latest_s
        forgiven_s = min(held_up_s, unread_s)
        self._zero += forgiven_s
        return forgiven_s
