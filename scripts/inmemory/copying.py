"""Copies a whole federation fast: mutable parts are copied, immutable ones are shared.

`copy.deepcopy` would copy every message and fail on functions that close over a machine. Here a frozen dataclass, an
array or a message counts as immutable; objects, containers, bound methods and closures are copied. It knows Python and
one frozen class with mutable parts, nothing else of the project.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import numpy as np

from coordinator.server import Parts

Memo = dict[int, Any]
_Copier = Callable[[Any, Memo], Any]

_ATOMS = (int, float, str, bytes, type(None), type, memoryview, np.ndarray, frozenset, enum.Enum, PurePath, range,
          types.MappingProxyType, types.BuiltinFunctionType, types.ModuleType)  # fmt: skip


def copied(value: Any) -> Any:  # noqa: ANN401 - anything in, the same out
    """Return an equal value that shares nothing mutable with the first."""
    return _copy(value, {})


def _copy(value: Any, memo: Memo) -> Any:  # noqa: ANN401
    kind = type(value)
    if kind in _SHARED:
        return value
    copier = _COPIERS.get(kind)
    if copier is not None:
        return copier(value, memo)
    _learn(kind)
    return _copy(value, memo)


def _sequence(value: Any, memo: Memo) -> Any:  # noqa: ANN401 - list or deque
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = type(value)()
        known.extend([one if type(one) in _SHARED else _copy(one, memo) for one in value])
    return known


def _buffer(value: Any, memo: Memo) -> Any:  # noqa: ANN401
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = bytearray(value)
    return known


def _tuple(value: Any, memo: Memo) -> Any:  # noqa: ANN401
    made = tuple([one if type(one) in _SHARED else _copy(one, memo) for one in value])
    return value if all(one is two for one, two in zip(made, value, strict=True)) else made


def _set(value: Any, memo: Memo) -> Any:  # noqa: ANN401
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = set(value)
    return known


def _dict(value: Any, memo: Memo) -> Any:  # noqa: ANN401 - any class of dict
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = type(value)()
        for key, one in value.items():
            known[key] = one if type(one) in _SHARED else _copy(one, memo)
    return known


def _method(value: Any, memo: Memo) -> Any:  # noqa: ANN401
    return types.MethodType(value.__func__, _copy(value.__self__, memo))


def _function(value: Any, memo: Memo) -> Any:  # noqa: ANN401
    if not value.__closure__:
        return value
    held = [cell.cell_contents for cell in value.__closure__]
    made = [_copy(one, memo) for one in held]
    if all(one is two for one, two in zip(made, held, strict=True)):
        return value
    cells = tuple(map(types.CellType, made))
    return types.FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, cells)


def _object(value: Any, memo: Memo) -> Any:  # noqa: ANN401
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = object.__new__(type(value))
        fields = known.__dict__
        for name, one in value.__dict__.items():
            fields[name] = one if type(one) in _SHARED else _copy(one, memo)
    return known


_COPIERS: dict[type, _Copier] = {
    list: _sequence,
    deque: _sequence,
    bytearray: _buffer,
    tuple: _tuple,
    set: _set,
    dict: _dict,
    OrderedDict: _dict,
    Counter: _dict,
    types.MethodType: _method,
    types.FunctionType: _function,
    Parts: _object,
}


_SHARED: set[type] = set()
"""Classes whose objects are shared; filled when a class is first seen."""


def _learn(kind: type) -> None:
    frozen = dataclasses.is_dataclass(kind) and getattr(kind, "__dataclass_params__").frozen  # noqa: B009
    if frozen or issubclass(kind, _ATOMS):
        _SHARED.add(kind)
    elif not hasattr(object.__new__(kind), "__dict__"):
        raise TypeError(f"{kind.__name__} cannot be copied: it keeps its fields in slots")
    else:
        _COPIERS[kind] = _object
