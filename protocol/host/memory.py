"""Makes the C library's allocator keep freed memory for the next report, row or slice.

By default glibc returns such blocks to the system when they are freed, so that each new one consists of fresh pages,
which the kernel provides and clears one by one. Elsewhere than with glibc this does nothing.
"""

from __future__ import annotations

import ctypes

from protocol.limits import MIB, SLICE_BYTES

KEPT_BYTES = 32 * MIB
"""Most free memory that is kept at the end of each of the allocator's areas."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD: from which size blocks are separate mappings, never reused."""


def keep_freed_memory() -> None:
    """Set it for the whole process; blocks larger than two slices are still returned at once."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, 2 * SLICE_BYTES)
