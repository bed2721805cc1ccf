"""Whether the disk can take what comes next: looked at before every round opens, and until it can again.

Counts what a round can write at most: an update and a row per member, and the reserve. A disk that failed although it
had room is tried by writing to it, less and less often. What to do about it is the machine's to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from coordinator.decisions.events import Event, Greeted, MixingDone, Started, StorageFree, StorageLow, WeighingDone

_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0


class SpaceGuard:
    """Remembers whether it has cried. `clock` is any that never goes back."""

    OPENING: ClassVar[tuple[type[Event], ...]] = (Started, Greeted, MixingDone, WeighingDone)
    """Events after which a round may open: only then is the whole of what it needs asked for."""

    def __init__(
        self,
        *,
        free_bytes: Callable[[], int],
        can_write: Callable[[], bool],
        members: Callable[[], int],
        row_bytes: int,
        reserve_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._free = free_bytes
        self._can_write = can_write
        self._members = members
        self._row_bytes = row_bytes
        self._reserve = reserve_bytes
        self._clock = clock
        self._patience_s = _FIRST_RETRY_S
        self._failed_at: float | None = None
        self.is_low = False

    def needed_bytes(self) -> int:
        """What the next round may write, and the reserve."""
        return self._reserve + 2 * self._members() * self._row_bytes

    def failed(self, reason: str) -> StorageLow:
        """Writing or reading failed: whatever the numbers say, the disk cannot be relied upon. Failing again soon after
        it seemed well doubles the time until it is tried."""
        now = self._clock()
        if not self.is_low:
            recent = self._failed_at is not None and now < self._failed_at + 2 * self._patience_s
            self._patience_s = min(2 * self._patience_s, _LONGEST_RETRY_S) if recent else _FIRST_RETRY_S
        self.is_low, self._failed_at = True, now
        return StorageLow(free_bytes=self._free(), needed_bytes=self.needed_bytes(), reason=reason)

    def look(self, *, opening: bool) -> StorageLow | StorageFree | None:
        """The event, when it has become scarce or plentiful. In the middle of a round only half the reserve counts."""
        free = self._free()
        needed = self.needed_bytes() if opening or self.is_low else self._reserve // 2
        if not self.is_low and free < needed:
            self.is_low = True
            return StorageLow(free_bytes=free, needed_bytes=needed)
        if self.is_low and free >= needed and self._works():
            self.is_low = False
            return StorageFree(free_bytes=free)
        return None

    def _works(self) -> bool:
        if self._failed_at is None:
            return True
        if self._clock() < self._failed_at + self._patience_s or not self._can_write():
            return False
        self._failed_at = self._clock()
        return True
