"""Claims about facts as plain values: the same fact comes back, and nothing unknown is guessed at."""

from __future__ import annotations

import dataclasses
import typing

import msgpack  # type: ignore[import-untyped]
import pytest

from coordinator.decisions import facts
from coordinator.decisions.facts import FACTS
from coordinator.record.journal import fact_from, fields_of
from fedap_core.errors import InvalidInput
from tests.support.machines import Bench, open_members, rules_for, validation


def examples() -> list[facts.Fact]:
    """Every fact of a short run, and one of each kind that it does not have."""
    bench = Bench(rules_for("fedap", members=open_members(2)))
    bench.join("a", "b")
    for name in "ab":
        bench.stats(name, 0)
    bench.update("a", 0, scores=validation(60))
    return [fact for fact, _ in bench.journal] + [_made(kind) for kind in FACTS.values()]


def _made(kind: type[facts.Fact]) -> facts.Fact:
    plain = {"str": "a", "int": 3, "float": 0.1, "bool": True, "float | None": 0.1, "int | None": None}
    plain |= {"str | None": "update", "tuple[str, ...]": ("a", "b"), "tuple[tuple[str, str], ...]": (("k", "a"),)}
    values: dict[str, typing.Any] = plain | {
        "tuple[tuple[float, ...], ...]": ((0.1, 0.9), (0.3, 0.7)),
        "tuple[Score, ...]": validation(1),
    }
    fields = dataclasses.fields(kind)
    values["tuple[float, ...]"] = (0.5, 0.9)
    values["tuple[tuple[str, int], ...]"] = (("a", 1), ("b", 2))
    return kind(**{field.name: values[str(field.type)] for field in fields})


def test_every_fact_survives_a_byte_format_that_knows_lists_only() -> None:
    for fact in examples():
        kind, fields = fields_of(fact)
        restored = msgpack.unpackb(msgpack.packb(fields))
        assert fact_from(kind, restored) == fact


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("Vanished", {}), ("Left", {"member": "a"}), ("Left", {"member": "a", "reason": "b", "mood": "c"}),
     ("GoodbyeAccepted", {"member": "a", "round_no": 1, "scores": [{"model": "odd"}]})],
)  # fmt: skip
def test_unknown_facts_are_refused(kind: str, fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        fact_from(kind, fields)
