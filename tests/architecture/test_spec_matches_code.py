"""The wire's law and the code say the same: every kind, field, transition, limit and code, and nothing besides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from protocol import describe, limits
from protocol.carriage import Tensors
from protocol.contracts import Record
from protocol.conversation import TABLE, PeerState
from protocol.errors import CODES, SHOWN_CHARS, RemoteProtocolError
from protocol.messages import KINDS, Side
from protocol.tensors import DTYPES
from protocol.versions import VERSION

SPEC = (Path(__file__).parents[2] / "protocol" / "SPEC.md").read_text(encoding="utf-8")

LIMITS = {
    name: value
    for name, value in vars(limits).items()
    if name.isupper() and isinstance(value, int) and name not in ("KIB", "MIB")
}


def between(start: str, end: str) -> str:
    return SPEC.split(start, 1)[1].split(end, 1)[0]


def test_drawn_parts_are_what_the_code_draws_today() -> None:
    assert describe.redraw(SPEC) == SPEC


def test_every_drawn_part_has_its_place_once() -> None:
    assert sorted(re.findall(r"<!-- drawn: (\w+) -->", SPEC)) == sorted(describe.DRAWN)


@pytest.mark.parametrize("record", [*KINDS.values(), *describe.RECORDS], ids=lambda record: record.__name__)
def test_docstring_explains_exactly_the_fields_there_are(record: type[Record]) -> None:
    paragraph, meaning = describe.meanings(record)
    assert paragraph
    assert list(meaning) == [name for name, _ in record.CONTRACTS]


def test_limits_table_holds_every_limit_with_its_value() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", between("## 7. Limits", "## 8."), re.MULTILINE)
    assert {name: int(value) for name, value in rows} == LIMITS
    assert len(rows) == len(LIMITS)


def test_document_and_code_are_of_one_version_which_has_a_change_note() -> None:
    assert f"Protocol version {VERSION}." in SPEC
    assert f"**{VERSION}**" in between("## 11. Change notes", "\0")


def test_every_fault_of_a_peer_has_its_row_among_the_codes() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", between("## 8. Error codes", "## 9."), re.MULTILINE)
    assert set(listed) == set(CODES)
    assert {kind.code for kind in RemoteProtocolError.__subclasses__()} <= set(listed)


def test_transition_table_of_the_document_is_the_table_of_the_code() -> None:
    """Read back from the text, not drawn: so the drawing itself is held to the table."""
    rows = re.findall(r"^\| (\w+) \| (.*) \| (.*) \|$", between("## 4. Conversation", "```mermaid"), re.MULTILINE)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for state, *cells in rows:
        if state in set(PeerState):
            moves = [[part.split(" ⇒ ") for part in cell.split(", ")] for cell in cells]
            found[state] = {
                s: {m[0]: m[-1] if len(m) == 2 else state for m in ms} for s, ms in zip(Side, moves, strict=True)
            }
    assert found == TABLE


def test_grammar_names_the_dtypes_there_are() -> None:
    (rule,) = re.findall(r"^dtype +=(.*)$", SPEC, re.MULTILINE)
    assert re.findall(r'"(\w+)"', rule) == list(DTYPES)


def test_no_message_has_more_sets_or_deeper_maps_than_the_limits_say() -> None:
    for kind in KINDS.values():
        assert sum(isinstance(contract, Tensors) for _, contract in kind.CONTRACTS) <= limits.SETS_PER_MESSAGE
        assert len(kind.CONTRACTS) <= limits.ITEMS


def test_promise_about_shown_characters_is_the_codes() -> None:
    assert f"at most {SHOWN_CHARS} characters" in SPEC
