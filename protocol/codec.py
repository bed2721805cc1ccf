"""Encode messages into frames and decode them. The only place where bytes from outside are accepted or refused.

For any input, decode() returns a message or raises RemoteProtocolError, and allocates no more memory than the limits
allow. It keeps no state and must not know sockets, peers, or the order of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgpack  # type: ignore[import-untyped]

from protocol.carriage import Tensors
from protocol.contracts import Buffer, Frames
from protocol.errors import (
    BadField,
    BadFrames,
    BadHeader,
    InvalidField,
    LocalProtocolError,
    TooLarge,
    UnknownKind,
    VersionMismatch,
)
from protocol.limits import DEPTH, HEADER_BYTES, ITEMS, LAYOUT_BYTES, SETS_PER_MESSAGE, SLICE_BYTES
from protocol.messages import KINDS, Message
from protocol.tensors import TensorSet
from protocol.versions import VERSION, Version


def encode(message: Message) -> list[Buffer]:
    """Return the frames of a message: the header, then one per set or slice sent with it. Payloads are not copied.

    A set above one slice is only announced; send its bytes by a transfer when the peer grants it.
    """
    frames: list[Buffer] = []
    fields = message.write(frames)
    return [msgpack.packb((VERSION.major, VERSION.minor, message.KIND, fields), use_bin_type=True), *frames]


def decode(frames: Sequence[Buffer]) -> Message:
    """Return the message in these frames, fully checked; payloads are read-only views of the frames."""
    if not 1 <= len(frames) <= 1 + SETS_PER_MESSAGE:
        raise BadFrames(f"got {len(frames)} frames, expected a header and at most {SETS_PER_MESSAGE} more")
    sizes = [memoryview(frame).nbytes for frame in frames]
    if sizes[0] > HEADER_BYTES:
        raise TooLarge("header bytes", sizes[0], HEADER_BYTES)
    if max(sizes[1:], default=0) > SLICE_BYTES:
        raise TooLarge("frame bytes", max(sizes[1:]), SLICE_BYTES)
    version, kind, fields = _open(_unpack(frames[0]))
    behind = Frames(frames[1:])
    try:
        message = kind.read(fields, behind, newer=version > VERSION)
    except InvalidField as fault:  # here the peer, not this program, broke the contract
        raise BadField(f"{kind.KIND}.{fault.field}", fault.got, fault.expected) from None
    if behind.left_over:
        raise BadFrames(f"{kind.KIND}: {behind.left_over} more frames than the header announces")
    return message


def offers(message: Message) -> tuple[TensorSet, ...]:
    """Return the sets of a message that are announced but have not arrived, in the order of its fields."""
    sets = [getattr(message, name) for name in _set_fields(message.KIND)]
    return tuple(one for one in sets if one is not None and one.data is None)


@cache
def _set_fields(kind: str) -> tuple[str, ...]:
    """Return the fields of a kind of message that hold tensor sets."""
    return tuple(name for name, contract in KINDS[kind].CONTRACTS if isinstance(contract, Tensors))


def require_complete(message: Message) -> None:
    """Raise LocalProtocolError for a message that would be acted on before its payloads have arrived."""
    if missing := offers(message):
        raise LocalProtocolError(f"{message.KIND} without {len(missing)} of its payloads must not be acted on")


def frame_sizes(frames: Sequence[Buffer]) -> tuple[int, ...]:
    """Return the bytes of each frame, to count traffic; without the transport's overhead."""
    return tuple([memoryview(frame).nbytes for frame in frames])


def _unpack(header: Buffer) -> object:
    try:
        plain: object = msgpack.unpackb(
            header,
            use_list=False,
            raw=False,
            strict_map_key=True,
            object_pairs_hook=_map,
            max_str_len=LAYOUT_BYTES,
            max_bin_len=LAYOUT_BYTES,
            max_array_len=ITEMS,
            max_map_len=ITEMS,
            max_ext_len=0,
        )
    except (ValueError, TypeError, msgpack.UnpackException) as fault:
        raise BadHeader(f"not a msgpack header: {type(fault).__name__}: {str(fault)[:100]}") from None
    _check_depth(plain)
    return plain


def _map(pairs: Sequence[tuple[object, object]]) -> dict[object, object]:
    """Return a map with distinct text keys: two parties must never read different values under one name."""
    found = dict(pairs)
    if len(found) != len(pairs) or (found and set(map(type, found)) != {str}):
        raise ValueError("a map with a repeated or non-text key")
    return found


def _check_depth(plain: object) -> None:
    """Check the nesting layer by layer: the peer would choose the depth of a recursion. Only tuples and dicts nest."""
    layer = [plain]
    for _ in range(DEPTH):
        inner: list[object] = []
        for value in layer:
            if type(value) is dict:
                inner.extend(value.values())
            elif type(value) is tuple:
                inner.extend(value)
        layer = inner
    if any(type(value) in (dict, tuple) for value in layer):
        raise TooLarge("nesting of the header", DEPTH + 1, DEPTH)


def _open(plain: object) -> tuple[Version, type[Message], dict[str, object]]:
    """Check the version before anything else, then the kind, then the fields; return them."""
    if not isinstance(plain, tuple) or len(plain) != 4:
        raise BadHeader("expected an array of major version, minor version, kind and fields")
    major, minor, kind, fields = plain
    try:
        version = Version(major=major, minor=minor)
    except InvalidField as fault:
        raise BadHeader(str(fault)) from None
    if not VERSION.understands(version):
        raise VersionMismatch(f"the peer uses protocol {version}, we use {VERSION}")
    if type(kind) is not str or kind not in KINDS:
        raise UnknownKind(f"no message of kind {kind[:40]!r}" if isinstance(kind, str) else "a kind that is not text")
    if not isinstance(fields, dict):
        raise BadHeader("expected the fields as a map")
    return version, KINDS[kind], fields
