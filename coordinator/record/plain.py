"""Facts as plain values and back, for the journal: names of fields to texts, numbers, truth values, None and lists.

What comes back equals what went in, bit for bit. A stored fact of unknown kind, or with other fields than today's, is
refused: a journal is never guessed at. Knows no file and no byte format.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache

from coordinator.decisions.facts import FACTS, Fact
from fedap_core.errors import InvalidInput
from protocol.errors import InvalidField
from protocol.messages import Score

_SCORES = "scores"
"""The one field that holds records instead of words and numbers."""


def to_plain(fact: Fact) -> tuple[str, dict[str, object]]:
    """(kind, fields) of a fact; fields nest tuples only."""
    fields: dict[str, object] = {name: getattr(fact, name) for name in _names(type(fact).__name__)}
    scores = fields.get(_SCORES)
    if isinstance(scores, tuple):
        fields[_SCORES] = tuple(score.write([]) for score in scores)
    return type(fact).__name__, fields


@cache
def _names(kind: str) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(FACTS[kind]))


def from_plain(kind: str, fields: Mapping[str, object]) -> Fact:
    """The fact that `to_plain` took apart; lists count as tuples, as byte formats do not tell them apart."""
    made: Callable[..., Fact] | None = FACTS.get(kind)
    if made is None:
        raise InvalidInput("journal", f"a fact of kind {kind!r}", "one this version knows")
    try:
        return made(**{name: _value(name, value) for name, value in fields.items()})
    except (TypeError, InvalidField) as error:
        raise InvalidInput("journal", f"a fact {kind} that does not fit ({error})", "one this version wrote") from error


def _value(name: str, value: object) -> object:
    if name == _SCORES and isinstance(value, list | tuple):
        return tuple(Score(**one) for one in value)
    return _tuples(value)


def _tuples(value: object) -> object:
    return tuple(_tuples(one) for one in value) if isinstance(value, list | tuple) else value
