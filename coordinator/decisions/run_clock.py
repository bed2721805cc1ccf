"""The run clock: seconds during which a coordinator of this run was running and not suspended.

Deadlines are kept by it, so it stands still where members cannot be blamed: while no coordinator runs, and
while this process was stopped, or held up by its machine, far longer than it had meant to take. What members said
meanwhile lies in the socket, and must be heard before anybody is called silent. Pure but for the clock it is given.
"""

from __future__ import annotations

from collections.abc import Callable


class RunClock:
    """clock: of this process; ran_s: counted by earlier processes; stall_s: being held up longer does not count."""

    def __init__(self, clock: Callable[[], float], *, ran_s: float, stall_s: float) -> None:
        self._clock = clock
        self._stall_s = stall_s
        self._checked_at = clock()
        self._zero = self._checked_at - ran_s
        self._latest_s = ran_s

    def now(self) -> float:
        """Never goes back."""
        self._latest_s = max(self._latest_s, self._clock() - self._zero)
        return self._latest_s

    def forgive_stall(self, meant_s: float | None) -> float:
        """Called after a step that should have taken at most `meant_s` since the last call (None: any time). Returns
        how many seconds do not count because it took so much longer."""
        took_s = self._clock() - self._checked_at
        self._checked_at += took_s
        held_up_s = 0.0 if meant_s is None else took_s - meant_s
        if held_up_s <= self._stall_s:
            return 0.0
        unread_s = self._checked_at - self._zero - self._latest_s
        forgiven_s = min(held_up_s, unread_s)
        self._zero += forgiven_s
        return forgiven_s
