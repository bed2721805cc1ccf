"""Claims about rounds that close without everyone: who is left, what old updates are worth, who keeps their own."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.arrays import BoolArray, FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.mixing import restrict

FEDAP = np.array([[1 / 2, 1 / 3, 1 / 6], [2 / 5, 1 / 2, 1 / 10], [1 / 3, 1 / 6, 1 / 2]])
FEDAVG = np.tile([1 / 2, 1 / 3, 1 / 6], (3, 1))


def who(*present: int, n: int = 3) -> BoolArray:
    return np.isin(np.arange(n), present)


def close(found: FloatArray, expected: list[list[float]]) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("self_weight", [0.5, None])
def test_full_attendance_changes_no_bit(self_weight: float | None) -> None:
    everyone = who(0, 1, 2)
    for discount in (None, np.ones(3)):
        found = restrict(FEDAP, usable=everyone, own=everyone, discount=discount, self_weight=self_weight)
        assert found.tolist() == FEDAP.tolist()
        assert found is not FEDAP


def test_absent_member_leaves_the_rest_rescaled_beside_the_self_weight() -> None:
    """2 is absent, no old update. Rows 0 and 1: the other one gets all of 1/2. Row 2: 1/3 and 1/6 become 2/3, 1/3."""
    found = restrict(FEDAP, usable=who(0, 1), own=who(0, 1), self_weight=0.5)
    close(found, [[1 / 2, 1 / 2, 0], [1 / 2, 1 / 2, 0], [2 / 3, 1 / 3, 0]])


def test_old_update_counts_for_others_with_its_discount_and_never_for_oneself() -> None:
    """2's last update is worth 1/2. Row 0: 1/3 and 1/12, as 4 : 1, of 1/2. Row 1: 2/5 and 1/20, as 8 : 1, of 1/2."""
    found = restrict(FEDAP, usable=who(0, 1, 2), own=who(0, 1), discount=np.array([1, 1, 0.5]), self_weight=0.5)
    close(found, [[1 / 2, 2 / 5, 1 / 10], [4 / 9, 1 / 2, 1 / 18], [2 / 3, 1 / 3, 0]])


def test_without_self_weight_rows_are_rescaled_as_a_whole() -> None:
    """1/2 and 1/3 are as 3 : 2; for the absent member too."""
    found = restrict(FEDAVG, usable=who(0, 1), own=who(0, 1), self_weight=None)
    close(found, [[3 / 5, 2 / 5, 0]] * 3)


def test_without_self_weight_the_discount_applies_to_others_only() -> None:
    """2's update of this round is worth 1/2 to others. Rows 0, 1: 1/2, 1/3, 1/12 of 11/12. Row 2: its full 1/6."""
    discount = np.array([1, 1, 0.5])
    found = restrict(FEDAVG, usable=who(0, 1, 2), own=who(0, 1, 2), discount=discount, self_weight=None)
    close(found, [[6 / 11, 4 / 11, 1 / 11], [6 / 11, 4 / 11, 1 / 11], [1 / 2, 1 / 3, 1 / 6]])


def test_without_self_weight_an_old_update_of_the_member_itself_is_not_used() -> None:
    """2's old update counts fully for 0 and 1; 2 itself gets 1/2 and 1/3 as 3 : 2."""
    found = restrict(FEDAVG, usable=who(0, 1, 2), own=who(0, 1), self_weight=None)
    close(found, [[1 / 2, 1 / 3, 1 / 6], [1 / 2, 1 / 3, 1 / 6], [3 / 5, 2 / 5, 0]])


@pytest.mark.parametrize("self_weight", [0.0, 0.5, 1.0, None])
def test_the_only_one_present_keeps_its_own_model_and_gives_it_to_all(self_weight: float | None) -> None:
    found = restrict(FEDAP, usable=who(1), own=who(1), self_weight=self_weight)
    assert found.tolist() == [[0.0, 1.0, 0.0]] * 3


@pytest.mark.parametrize("self_weight", [0.5, None])
def test_lone_client_stays_alone(self_weight: float | None) -> None:
    """Its own update may be worth nothing to others: to itself it is worth everything."""
    present = who(0, n=1)
    for discount in (None, np.zeros(1)):
        found = restrict(np.ones((1, 1)), usable=present, own=present, discount=discount, self_weight=self_weight)
        assert found.tolist() == [[1.0]]


def test_member_that_gives_others_no_weight_keeps_its_own_model_or_takes_them_alike() -> None:
    """Self weight 1: W is the identity. 0 and 1 keep theirs; 2, absent, has nothing to go by and takes both alike."""
    found = restrict(np.eye(3), usable=who(0, 1), own=who(0, 1), self_weight=1.0)
    assert found.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]


def test_member_with_nothing_to_go_by_trusts_fresh_updates_more() -> None:
    """1's old update is worth 1/3: 1 and 1/3 are as 3 : 1."""
    found = restrict(np.eye(3), usable=who(0, 1), own=who(0), discount=np.array([1, 1 / 3, 1]), self_weight=1.0)
    close(found, [[1, 0, 0], [1, 0, 0], [3 / 4, 1 / 4, 0]])


def test_twin_of_an_absent_member_keeps_its_own_model() -> None:
    """0 and 1 are twins, so row 0 gives 2 nothing; without 1, nobody with weight is left for 0."""
    twins = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])
    found = restrict(twins, usable=who(0, 2), own=who(0, 2), self_weight=0.5)
    assert found.tolist() == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]


def test_update_discounted_to_nothing_counts_as_absent() -> None:
    found = restrict(FEDAP, usable=who(0, 1, 2), own=who(0, 1), discount=np.array([1.0, 1.0, 0.0]), self_weight=0.5)
    assert found.tolist() == restrict(FEDAP, usable=who(0, 1), own=who(0, 1), self_weight=0.5).tolist()


def test_round_of_old_updates_alone_mixes_the_others() -> None:
    """Nobody reported; 0 and 1 have old updates: each gets the other's, 2 gets 1/3 and 1/6 as 2 : 1."""
    found = restrict(FEDAP, usable=who(0, 1), own=who(), self_weight=0.5)
    close(found, [[0, 1, 0], [1, 0, 0], [2 / 3, 1 / 3, 0]])


@pytest.mark.parametrize("present", [(), (1,)])
def test_member_to_whom_nobody_is_usable_is_refused(present: tuple[int, ...]) -> None:
    """Nobody at all; or 1's old update alone, which 1 itself must not use."""
    with pytest.raises(InvalidInput, match="usable: got nobody"):
        restrict(FEDAP, usable=who(*present), own=who(), self_weight=0.5)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("usable", who(0, n=2)),
        ("usable", np.array([1, 1, 1])),
        ("own", np.array([[True, True, True]])),
        ("own", who(0, 2)),
        ("discount", np.array([1.0, 1.0])),
        ("discount", np.array([1.0, 1.0, 1.5])),
        ("discount", np.array([1.0, 1.0, -0.5])),
        ("discount", np.array([1.0, 1.0, np.nan])),
        ("self_weight", 2.0),
    ],
)
def test_wrong_arguments_are_refused_by_name(field: str, wrong: object) -> None:
    arguments: dict[str, object] = {"usable": who(0, 1), "own": who(0), "discount": np.ones(3), "self_weight": 0.5}
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        restrict(FEDAP, **(arguments | {field: wrong}))  # type: ignore[arg-type]
