"""Arrays shared with forked children, in memory or in unnamed files; those in files may be larger than memory.

Pages are in the system's page cache and are written to disk when it needs the space. Knows neither models nor clients.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedap_core.arrays import Float32Array


class MappedRows:
    """`array` of zeros, (count, width), in a file in `folder`, or in memory only. Rows are aligned to 64 bytes, like
    torch's buffers: alignment can change the bits of a product."""

    def __init__(self, folder: Path | None, count: int, width: int, dtype: np.dtype[Any]) -> None:
        stride = -(-max(width * dtype.itemsize, 1) // 64) * 64
        if folder is None:
            self._memory = mmap.mmap(-1, count * stride)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.truncate(count * stride)
                self._memory = mmap.mmap(file.fileno(), count * stride)
        whole = np.frombuffer(self._memory, dtype=dtype).reshape(count, stride // dtype.itemsize)
        self.array: NDArray[Any] = whole[:, :width]

    @property
    def size_bytes(self) -> int:
        return len(self._memory)

    def release(self) -> None:
        """Release this process's pages; the next access loads them again."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._memory.madvise(mmap.MADV_DONTNEED)


def room_for_rows(
    folder: Path, count: int, size: int, *, most_bytes: int
) -> tuple[Sequence[Float32Array], Callable[[], None]]:
    """Return rows to be written once, in memory or, above `most_bytes`, in a file, and a function to release them."""
    if count * size * 4 <= most_bytes:
        return [np.empty(size, dtype=np.float32) for _ in range(count)], lambda: None
    table = MappedRows(folder, count, size, np.dtype(np.float32))
    return list(table.array), table.release
