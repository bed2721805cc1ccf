"""Contracts of fields: which values are valid, and how they are encoded in a header. The description of a contract
appears both in errors and in SPEC.md.

A record is a frozen class whose fields have contracts in their types; it is checked whenever it is built. This file
must not know any message, nor msgpack: `write` returns plain values (None, bool, int, float, str, bytes, tuple, dict
with text keys) and may put large bytes into separate frames; `read` reverses it.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass
from typing import Annotated, ClassVar, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from protocol.errors import InvalidField
from protocol.limits import ITEMS

Buffer = bytes | bytearray | memoryview


class Frames:
    """The frames after a header, taken in order; frames left over are an error of the sender."""

    def __init__(self, frames: Sequence[Buffer]) -> None:
        self._frames = frames
        self._taken = 0

    def take(self, field: str) -> Buffer:
        if self._taken == len(self._frames):
            raise InvalidField(field, None, "a frame behind the header")
        self._taken += 1
        return self._frames[self._taken - 1]

    @property
    def left_over(self) -> int:
        return len(self._frames) - self._taken


class Contract:
    """A field that is sent unchanged. `expected` completes the sentence «got x, expected …»."""

    def __init__(self, expected: str, accepts: Callable[[object], bool]) -> None:
        self.expected = expected
        self.accepts = accepts

    def write(self, value: object, frames: list[Buffer]) -> object:  # noqa: ARG002 - composite contracts use it
        return value

    def read(self, wire: object, frames: Frames, newer: bool) -> object:  # noqa: ARG002 - composite contracts use it
        """Return the value, not yet checked. newer: the sender's minor version is higher, so ignore unknown fields."""
        return wire


def whole(low: int, high: int) -> Contract:
    return Contract(f"a whole number from {low} to {high}", lambda v: type(v) is int and low <= v <= high)


LARGEST = sys.float_info.max


def real(low: float, high: float = LARGEST, *, above: bool = False, below: bool = False) -> Contract:
    """A finite number in [low, high]; above `low` if `above`, below `high` if `below`."""

    def accepts(value: object) -> bool:
        if type(value) is not int and not isinstance(value, float):  # accepts numpy's float, but not bool (an int)
            return False
        return low <= value <= high and not (above and value == low) and not (below and value == high)  # false for NaN

    upper = "" if high == LARGEST else f" to {'below ' if below else ''}{high:g}"
    bounds = f"{'above' if above else 'from'} {low:g}{upper}"
    return Contract(f"a finite number {bounds}", accepts)


def text(longest: int) -> Contract:
    """Printable text, which can be logged or shown on a terminal unchanged."""
    return Contract(
        f"printable text of at most {longest} characters",
        lambda v: type(v) is str and len(v) <= longest and v.isprintable(),
    )


def matching(pattern: str, expected: str) -> Contract:
    compiled = re.compile(pattern)
    return Contract(expected, lambda v: type(v) is str and compiled.fullmatch(v) is not None)


def one_of(*names: str) -> Contract:
    known = frozenset(names)
    return Contract("one of " + ", ".join(names), lambda v: type(v) is str and v in known)


FLAG = Contract("true or false", lambda v: type(v) is bool)


class Maybe(Contract):
    """Nil, or a value that the inner contract accepts."""

    def __init__(self, inner: Contract) -> None:
        self.inner = inner
        super().__init__(f"nil or {inner.expected}", lambda v: v is None or inner.accepts(v))

    def write(self, value: object, frames: list[Buffer]) -> object:
        return None if value is None else self.inner.write(value, frames)

    def read(self, wire: object, frames: Frames, newer: bool) -> object:
        return None if wire is None else self.inner.read(wire, frames, newer)


class Many(Contract):
    """An array of at most `most` items."""

    def __init__(self, inner: Contract, most: int = ITEMS) -> None:
        self.inner = inner
        super().__init__(
            f"an array of at most {most}, each {inner.expected}",
            lambda v: type(v) is tuple and len(v) <= most and all(map(inner.accepts, v)),
        )

    def write(self, value: object, frames: list[Buffer]) -> object:
        return tuple(self.inner.write(one, frames) for one in value) if isinstance(value, tuple) else value

    def read(self, wire: object, frames: Frames, newer: bool) -> object:
        return tuple(self.inner.read(one, frames, newer) for one in wire) if isinstance(wire, tuple) else wire


class Nested(Contract):
    """A record inside a record: a map of its fields."""

    def __init__(self, kind: type[Record]) -> None:
        self.kind = kind
        super().__init__(f"a {kind.__name__} map", lambda v: isinstance(v, kind))

    def write(self, value: object, frames: list[Buffer]) -> object:
        return value.write(frames) if isinstance(value, Record) else value

    def read(self, wire: object, frames: Frames, newer: bool) -> object:
        return self.kind.read(wire, frames, newer) if isinstance(wire, dict) else wire


class Record:
    """A map of fields, each with its contract; `_check` adds rules that involve several fields."""

    __slots__ = ()
    CONTRACTS: ClassVar[tuple[tuple[str, Contract], ...]] = ()
    REQUIRED: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        for name, contract in self.CONTRACTS:
            value = getattr(self, name)
            if not contract.accepts(value):
                raise InvalidField(name, value, contract.expected)
        self._check()

    def _check(self) -> None:
        """Raise InvalidField if the fields are valid one by one but not together."""

    def write(self, frames: list[Buffer]) -> dict[str, object]:
        """Return all fields as plain values; large bytes are appended to `frames` in the order of the fields."""
        return {name: contract.write(getattr(self, name), frames) for name, contract in self.CONTRACTS}

    @classmethod
    def read(cls: type[R], wire: dict[str, object], frames: Frames, newer: bool) -> R:
        """Build the record from the result of `write`; InvalidField names the wrong field with its path."""
        values: dict[str, object] = {}
        for name, contract in cls.CONTRACTS:
            if name in wire:
                try:
                    values[name] = contract.read(wire[name], frames, newer)
                except InvalidField as fault:
                    raise fault.inside(name) from None
            elif name in cls.REQUIRED:
                raise InvalidField(name, None, f"to be present ({contract.expected})")
        if len(values) != len(wire) and not newer:
            unknown = next(name for name in wire if name not in values)
            raise InvalidField(unknown[:40], wire[unknown], "no such field")
        return cls(**values)


R = TypeVar("R", bound=Record)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[R]) -> type[R]:
    """Make a Record subclass a frozen, keyword-only, slotted dataclass that checks every field against its type."""
    made = dataclass(frozen=True, kw_only=True, slots=True)(cls)
    hints = get_type_hints(made, include_extras=True)
    declared: dict[str, Field[object]] = getattr(made, "__dataclass_fields__")  # noqa: B009 - unknown to the type R
    own = [field for field in declared.values() if get_origin(hints[field.name]) is not ClassVar]
    made.CONTRACTS = tuple((field.name, contract_of(hints[field.name])) for field in own)
    made.REQUIRED = frozenset(field.name for field in own if field.default is MISSING)
    return made


def contract_of(hint: object) -> Contract:
    """Return the contract of a type: `Annotated[int, whole(0, 9)]`, a record, or a union of one of these with None."""
    if get_origin(hint) is Annotated:
        return next(note for note in get_args(hint) if isinstance(note, Contract))
    if get_origin(hint) in (Union, types.UnionType):
        inner, none = get_args(hint)
        if none is type(None):
            return Maybe(contract_of(inner))
    if isinstance(hint, type) and issubclass(hint, Record):
        return Nested(hint)
    raise TypeError(f"{hint!r} carries no contract")
