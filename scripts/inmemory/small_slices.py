"""Makes slices tiny for a whole process, so that a payload of a few bytes travels as a large model does.

The limits of the wire are constants that other modules read when they are imported. So this must come first in a
process of its own, before any other module of the protocol; it decides the sizes and nothing else.
"""

from __future__ import annotations

import sys

from protocol import limits

SLICE_BYTES = 64
"""A slice: sixteen float32 values."""

EMBEDDED_BYTES = 16
"""Up to so many bytes a tensor set rides inside the header; up to a slice it is a frame of its own."""


def shrink() -> None:
    """Change the limits. Too late, it would leave modules that disagree: then it refuses."""
    late = sorted(name for name in sys.modules if name.startswith("protocol.") and name != "protocol.limits")
    if late:
        raise RuntimeError(f"slices must be made small before {late[0]} is imported")
    vars(limits).update(SLICE_BYTES=SLICE_BYTES, EMBEDDED_BYTES=EMBEDDED_BYTES)
