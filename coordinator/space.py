"""Whether the disk has room for what comes next: looked at before every round opens, and until there is room again.

Counts what a round can write at most: an update and a row per member, and the reserve. What to do about it is the
machine's to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from coordinator.events import Event, Greeted, MixingDone, Started, StorageFree, StorageLow, WeighingDone


class SpaceGuard:
    """Remembers whether it has cried."""

    OPENING: ClassVar[tuple[type[Event], ...]] = (Started, Greeted, MixingDone, WeighingDone)
    """Events after which a round may open: only then is the whole of what it needs asked for."""

    def __init__(
        self, *, free_bytes: Callable[[], int], members: Callable[[], int], row_bytes: int, reserve_bytes: int
    ) -> None:
        self._free = free_bytes
        self._members = members
        self._row_bytes = row_bytes
        self._reserve = reserve_bytes
        self.is_low = False

    def needed_bytes(self) -> int:
        """What the next round may write, and the reserve."""
        return self._reserve + 2 * self._members() * self._row_bytes

    def look(self, *, opening: bool) -> StorageLow | StorageFree | None:
        """The event, when it has become scarce or plentiful. In the middle of a round only half the reserve counts."""
        free = self._free()
        needed = self.needed_bytes() if opening or self.is_low else self._reserve // 2
        if not self.is_low and free < needed:
            self.is_low = True
            return StorageLow(free_bytes=free, needed_bytes=needed)
        if self.is_low and free >= needed:
            self.is_low = False
            return StorageFree(free_bytes=free)
        return None
