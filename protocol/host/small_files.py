"""Reads files that a person writes (settings, keys, tokens). Decides how large such a file may be."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from protocol.limits import MIB

MOST_BYTES: Final = MIB


def read_small_text(path: Path, *, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Read a whole text file; OSError if it is larger than MOST_BYTES, such as a device that has no end."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MOST_BYTES // MIB} MiB", str(path))
    return data.decode(encoding, errors)
