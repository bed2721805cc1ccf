"""The run clock: seconds that coordinators of this run have been alive and awake.

Deadlines are kept by it, so it stands still where members cannot be blamed: between two lives of the coordinator, and
while this process was stopped, or held up by its machine, far longer than it had meant to take. What members said
meanwhile lies in the socket, and must be heard before anybody is called silent. Pure but for the clock it is given.
"""

from __future__ import annotations

from collections.abc import Callable


class RunClock:
    """clock: of this process; ran_s: what earlier lives have counted; stall_s: being held up longer does not count."""

    def __init__(self, clock: Callable[[], float], *, ran_s: float, stall_s: float) -> None:
        self._clock = clock
        self._stall_s = stall_s
        self._looked_at = clock()
        self._zero = self._looked_at - ran_s
        self._told = ran_s

    def now(self) -> float:
        """Never goes back."""
        self._told = max(self._told, self._clock() - self._zero)
        return self._told

    def look(self, meant_s: float | None) -> float:
        """Something is over that was meant to take at most so long (None: however long), since the last look. Returns
        how many seconds do not count because it took so much longer."""
        took_s = self._clock() - self._looked_at
        self._looked_at += took_s
        held_up_s = 0.0 if meant_s is None else took_s - meant_s
        if held_up_s <= self._stall_s:
            return 0.0
        untold_s = self._looked_at - self._zero - self._told
        forgiven_s = min(held_up_s, untold_s)
        self._zero += forgiven_s
        return forgiven_s
