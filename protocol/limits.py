"""Every limit of the wire, with its unit and its reason. Nothing here is configuration: both sides must agree.

A limit is checked before the thing it limits is allocated. This file must not know who checks it.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

SLICE_BYTES: Final = 4 * MIB
"""Largest payload frame. The socket library holds a whole message in memory before it delivers it."""

EMBEDDED_BYTES: Final = 64 * KIB
"""A tensor set up to this size is embedded in the header, which is cheaper than a separate frame."""

LAYOUT_BYTES: Final = 64 * KIB
"""Longest layout text: about a thousand tensors with long names."""

SETS_PER_MESSAGE: Final = 4
"""Most tensor sets in one message (`update`: weights, statistics, class tables, row)."""

HEADER_BYTES: Final = (SETS_PER_MESSAGE * 2 + 1) * 64 * KIB
"""Largest header: every set embedded with the longest layout, and 64 KiB for all other fields. No message that can be
built exceeds it, so only received ones are checked."""

FRAME_BYTES: Final = SLICE_BYTES + 64 * KIB
"""Limit for the socket (ZMQ_MAXMSGSIZE), above any legal frame."""

ITEMS: Final = 64
"""Most entries of one array or map in a header. A decoder reserves memory for an array by its announced length alone,
and arrays nest; 64 keeps that under 1 MiB whatever is announced."""

DEPTH: Final = 6
"""Deepest nesting of a header; the header itself is level 1."""

TENSORS: Final = 2048
"""Most tensors in one set."""

TENSOR_NAME_CHARS: Final = 200
"""Longest name of one tensor."""

DIMENSIONS: Final = 8
"""Most dimensions of one tensor."""

SET_BYTES: Final = 4096 * MIB
"""Largest tensor set: a billion float32 values."""

TEXT_CHARS: Final = 500
"""Longest free text (reasons, values shown to a person)."""

ROUNDS: Final = 1_000_000
"""Most rounds of a run."""

WINDOW_SLICES: Final = 4
"""Slices one peer may have in flight: enough to fill a line, few enough that heartbeats get through between them."""

IN_FLIGHT_BYTES: Final = 256 * MIB
"""Default for all transfers of a process in one direction together; the only limit here that is configurable."""

TRANSFERS_PER_PEER: Final = 8
"""Transfers one peer may have open. A further one replaces the oldest."""
