"""Mutates valid messages into likely troublemakers: by field, by byte and by frame. Seeded; decides nothing else.

A header is decoded first, so that a change reaches the contract behind the grammar: a number at the edge of its range,
a text of another message, a field that is missing or doubled. Values from the corpus are reused, because a name or a
round that the other side knows gets further than a random one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]

Frames = tuple[bytes, ...]

EDGES: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 2, 63, 64, 65, 127, 255, 65_535, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63),
    2**64 - 1, 0.0, -0.0, 1.0, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"), "", "x", "a" * 65, "\0", "é",
    "\u202e", "0" * 32, "ab" * 16, "w float32 9999999999\n", "w float32 4\n", "../../x", "os:system", b"", b"\0" * 64,
    b"\xff" * 9, (), (0,), ("",), {}, {"x": 1}, ((((((1,),),),),),),
)  # fmt: skip
"""Values at the limits of contracts, and of wrong types."""


class Mutator:
    """corpus: valid messages, each as its frames. One generator: a seed determines the sequence of cases."""

    def __init__(self, corpus: Sequence[Frames], rng: random.Random) -> None:
        self.rng = rng
        self._corpus = tuple(corpus)
        self._headers = tuple(msgpack.unpackb(frames[0], strict_map_key=False) for frames in corpus)
        self._values = [*EDGES, *(value for header in self._headers for value in _leaves(header))]

    def mutated(self) -> Frames:
        """Return the next case."""
        rng = self.rng
        at = int(rng.random() * len(self._corpus))
        way = rng.random()
        if way < 0.55:
            return (self._refilled(self._headers[at]), *self._corpus[at][1:])
        if way < 0.80:
            return self._with_changed_bytes(self._corpus[at])
        if way < 0.92:
            return self._reframed(self._corpus[at])
        if way < 0.97:
            return self._corpus[at]
        return tuple(rng.randbytes(rng.randrange(80)) for _ in range(rng.randrange(1, 4)))

    def _refilled(self, header: Any) -> bytes:  # noqa: ANN401 - whatever msgpack holds
        rng = self.rng
        changed = header
        for _ in range(1 if rng.random() < 0.7 else 3):
            changed = self._changed(changed)
        try:
            packed: bytes = msgpack.packb(changed)
        except (ValueError, OverflowError, TypeError, RecursionError):
            return b"\x94"
        return packed

    def _changed(self, value: Any) -> Any:  # noqa: ANN401
        """Return the value with one thing inside it replaced, removed, doubled or renamed."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.93:
            return self._changed_map(value)
        if isinstance(value, list | tuple) and value and rng.random() < 0.9:
            at, items = int(rng.random() * len(value)), list(value)
            if len(items) == 4 and isinstance(items[3], dict) and rng.random() < 0.9:
                at = 3  # a header: prefer its fields
            way = rng.random()
            if way < 0.9:
                items[at] = self._changed(items[at])
            elif way < 0.95:
                del items[at]
            else:
                items.insert(at, items[at])
            return items
        if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
            return max(min(value + rng.choice((-64, -1, 1, 2, 64)), 2**64 - 1), -(2**63))
        return rng.choice(self._values)

    def _changed_map(self, value: dict[Any, Any]) -> dict[Any, Any]:
        rng, items = self.rng, dict(value)
        key = rng.choice(list(items))
        way = rng.random()
        if way < 0.86:
            items[key] = self._changed(items[key])
        elif way < 0.92:
            del items[key]
        elif way < 0.96:
            items[rng.choice(("extra", "", 7, "run", "round_no"))] = items[key]
        else:
            other = rng.choice(list(items))
            items[key], items[other] = items[other], items[key]
        return items

    def _with_changed_bytes(self, frames: Frames) -> Frames:
        rng = self.rng
        which = 0 if rng.random() < 0.8 else int(rng.random() * len(frames))
        bytes_ = bytearray(frames[which])
        for _ in range(1 if rng.random() < 0.6 else 4):
            at = int(rng.random() * (len(bytes_) or 1))
            way = rng.random()
            if way < 0.5 and bytes_:
                bytes_[at] = int(rng.random() * 256)
            elif way < 0.65 and bytes_:
                bytes_[at] ^= 1 << int(rng.random() * 8)
            elif way < 0.8:
                del bytes_[at : at + 1 + int(rng.random() * 20)]
            elif way < 0.9:
                bytes_[at:at] = rng.randbytes(1 + int(rng.random() * 8))
            else:
                bytes_[at:at] = bytes_[at : at + 20]
        return (*frames[:which], bytes(bytes_), *frames[which + 1 :])

    def _reframed(self, frames: Frames) -> Frames:
        rng = self.rng
        way = rng.random()
        if way < 0.3:
            return frames[: int(rng.random() * len(frames))]
        if way < 0.6:
            return (*frames, rng.choice((b"", b"\0", frames[0], b"x" * 64, b"y" * 65)))
        if way < 0.8:
            mixed = list(frames)
            rng.shuffle(mixed)
            return tuple(mixed)
        return (frames[0], *self._corpus[int(rng.random() * len(self._corpus))][1:])


def _leaves(value: object) -> list[object]:
    """Return everything inside a header that is not a container, without long texts."""
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in _leaves(one)]
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in _leaves(one)]
    return [] if isinstance(value, str | bytes) and len(value) > 200 else [value]
