"""Snapshots: the state of a run as JSON, so that replay need not start from the first fact.

Conversion follows the type hints of the state's classes, so a field added there needs no change here. A snapshot
includes the state's digest: if the restored state has another digest, the whole journal is replayed instead.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from coordinator.decisions.state import State

EVERY_ROUNDS = 50
"""Closed rounds between two snapshots."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state after the entry `serial`; replay may start after it."""

    serial: int
    body: bytes


def take(state: State, serial: int) -> Snapshot:
    """Return a snapshot of the state after the journal's entry `serial`."""
    text = json.dumps({"digest": state.digest(), "state": _plain(state)})
    return Snapshot(serial=serial, body=text.encode())


def restore(snapshot: Snapshot) -> State | None:
    """Return the state of a snapshot; None if it is damaged or from another version."""
    try:
        found = json.loads(snapshot.body)
        state = _typed(State, found["state"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None
    return state if isinstance(state, State) and state.digest() == found["digest"] else None


def _plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return {"shape": value.shape, "values": value.ravel().tolist()}
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value


def _typed(hint: Any, value: Any) -> object:  # noqa: ANN401 - types as values
    """Convert a plain value to the type; TypeError or ValueError if it does not fit."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _typed(next(one for one in arguments if one is not type(None)), value)
    if origin is tuple:
        inner = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_typed(one, part) for one, part in zip(inner, value, strict=True))
    if origin is dict:
        return {key: _typed(arguments[1], one) for key, one in value.items()}
    if origin is np.ndarray:
        shape = tuple(value["shape"])
        return np.asarray(value["values"], dtype=np.float64).reshape(shape)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        return hint(**{name: _typed(hints[name], one) for name, one in value.items()})
    return value
