"""Read arrays from an untrusted .npz archive: no pickle, and one-line errors that name the file.

This module handles only the container; callers interpret the arrays.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedap_core.errors import InvalidInput

AnyArray = NDArray[np.generic]
_DAMAGE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError, MemoryError)
"""Errors from reading a damaged archive; MemoryError if a broken header claims more than any machine holds."""


@dataclass(frozen=True, kw_only=True)
class Archive:
    """The arrays of one archive, read completely."""

    path: Path
    arrays: tuple[tuple[str, AnyArray], ...]

    def get(self, name: str) -> AnyArray | None:
        return next((array for key, array in self.arrays if key == name), None)

    def array(self, name: str, *, shape: tuple[int | None, ...] | None = None) -> AnyArray:
        """Return the array of that name; None in `shape`: any length. InvalidInput if missing or of another shape."""
        found = self.get(name)
        if found is None:
            present = ", ".join(key for key, _ in self.arrays) or "nothing"
            raise InvalidInput(str(self.path), f"arrays {present}", f"an array named {name!r}")
        if shape is not None:
            fits = found.ndim == len(shape) and all(
                want in (None, got) for want, got in zip(shape, found.shape, strict=True)
            )
            if not fits:
                wanted = "(" + ", ".join("n" if size is None else str(size) for size in shape) + ")"
                raise InvalidInput(f"{self.path}: {name}", f"shape {found.shape}", f"shape {wanted}")
        return found

    def integers(self, name: str, *, shape: tuple[int | None, ...] = (None,)) -> NDArray[np.int64]:
        """Return an array of integers as int64."""
        found = self.array(name, shape=shape)
        if found.dtype.kind not in "iub":
            raise InvalidInput(f"{self.path}: {name}", f"dtype {found.dtype}", "whole numbers")
        return found.astype(np.int64)


def read_archive(path: Path, *, names: Collection[str] | None = None, fix: str = "") -> Archive:
    """Read the arrays called `names` (None: all of them). InvalidInput if the file is missing or damaged."""
    if not path.is_file():
        raise InvalidInput(str(path), "no such file", "an .npz archive", fix)
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.lib.npyio.NpzFile):
            with archive:
                wanted = [name for name in archive.files if names is None or name in names]
                return Archive(path=path, arrays=tuple((name, archive[name]) for name in wanted))
    except _DAMAGE as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(
            str(path), f"a damaged archive ({reason})", "an .npz archive without pickles", fix
        ) from error
    raise InvalidInput(str(path), "a single array", "an .npz archive of named arrays", fix)
