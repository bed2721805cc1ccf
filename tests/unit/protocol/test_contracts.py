"""Fields that check themselves: what each contract takes and refuses, and what an error shows of a hostile value."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from protocol.contracts import FLAG, Contract, Frames, Many, Maybe, contract_of, matching, one_of, real, text, whole
from protocol.errors import CODES, SHOWN_CHARS, InvalidField, RemoteProtocolError, shown
from protocol.plan import Options
from protocol.versions import VERSION, Version
from tests.unit.protocol.samples import HELLO, SCORE


@pytest.mark.parametrize(
    ("contract", "good", "bad"),
    [
        (whole(0, 9), [0, 9], [-1, 10, True, 1.0, "1", None]),
        (real(0.0, 1.0), [0, 0.5, 1.0], [-0.1, 1.1, True, float("nan"), float("inf"), "1"]),
        (real(0.0, above=True), [1e-9, 5], [0.0, -1.0, float("inf")]),
        (text(3), ["", "abc", "äöü"], ["abcd", "a\n", b"abc", None]),
        (matching(r"[a-z]+", "letters"), ["abc"], ["abc\n", "", "A", 1]),
        (one_of("a", "b"), ["a", "b"], ["c", "", None, ["a"]]),
        (FLAG, [True, False], [0, 1, None, "true"]),
        (Maybe(whole(0, 9)), [None, 3], [10, "x"]),
        (Many(whole(0, 9), 2), [(), (1,), (1, 2)], [(1, 2, 3), (10,), [1], 1, None]),
        (
            Options(),
            [{}, {"a": 1}, {"a": None, "b": "x", "c": False, "d": 0.5}],
            [{1: 2}, {"a": []}, {"a": {}}, (), None],
        ),
    ],
)
def test_contract_takes_what_it_says_and_nothing_else(
    contract: Contract, good: list[object], bad: list[object]
) -> None:
    assert [contract.accepts(value) for value in good] == [True] * len(good)
    assert [contract.accepts(value) for value in bad] == [False] * len(bad)


def test_type_without_a_contract_cannot_become_a_field() -> None:
    with pytest.raises(TypeError, match="no contract"):
        contract_of(int)


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        HELLO.name = "other"  # type: ignore[misc]


def test_fields_that_are_right_one_by_one_and_wrong_together_are_refused() -> None:
    with pytest.raises(InvalidField, match="at most the 10 samples"):
        type(SCORE)(model="trained", split="test", samples=10, correct=11, loss=None, macro_f1=0.0)


def test_frame_can_be_taken_once() -> None:
    frames = Frames([b"a"])
    assert (frames.take("x"), frames.left_over) == (b"a", 0)
    with pytest.raises(InvalidField):
        frames.take("x")


def test_hostile_values_are_shown_short_and_whole_containers_not_at_all() -> None:
    nested: object = ()
    for _ in range(2000):
        nested = (nested,)
    values = ["x" * 10_000, b"\x00" * 10_000, 10**5000, nested, {"a": 1}, 1e300, None, "\x1b[2J"]
    texts = [shown(value) for value in values]
    assert max(map(len, texts)) <= SHOWN_CHARS
    assert all(one.isprintable() for one in texts)
    assert texts[3:5] == ["a tuple of 1", "a dict of 1"]


def test_every_fault_of_a_peer_has_a_code_of_the_table() -> None:
    kinds = RemoteProtocolError.__subclasses__()
    assert len(kinds) == 11
    assert {kind.code for kind in kinds} <= CODES.keys()


@pytest.mark.parametrize(("other", "understood"), [((5, 0), True), ((5, 9), True), ((4, 9), False), ((6, 0), False)])
def test_versions_understand_each_other_within_a_major_number(other: tuple[int, int], understood: bool) -> None:
    theirs = Version(major=other[0], minor=other[1])
    assert VERSION.understands(theirs) is understood


def test_version_numbers_fit_one_byte() -> None:
    with pytest.raises(InvalidField):
        Version(major=1, minor=128)
