"""Makes slices tiny for a whole process, so that a payload of a few bytes is sent like a large model.

The limits of the wire are constants that other modules read when they are imported. So this needs its own process and
must come before any other module of the protocol; it decides the sizes and nothing else.
"""

from __future__ import annotations

import sys

from protocol import limits

SLICE_BYTES = 64
"""Size of a slice: sixteen float32 values."""

EMBEDDED_BYTES = 16
"""Up to this many bytes a tensor set is embedded in the header; up to a slice it is a separate frame."""


def shrink() -> None:
    """Change the limits; raises if other modules have already read them, because they would disagree."""
    late = sorted(name for name in sys.modules if name.startswith("protocol.") and name != "protocol.limits")
    if late:
        raise RuntimeError(f"slices must be made small before {late[0]} is imported")
    vars(limits).update(SLICE_BYTES=SLICE_BYTES, EMBEDDED_BYTES=EMBEDDED_BYTES)
