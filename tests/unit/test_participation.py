"""Claims about partial participation: who is drawn, what their updates are worth, and who is refused it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from fedap_core.participation import NEVER, drawn, require_participation, standing
from fedap_core.strategies import STRATEGIES, make_strategy


def test_the_draw_follows_from_seed_and_round_alone_and_reaches_everybody() -> None:
    """5 % of 200 is 10. Missing somebody in 200 rounds has a chance of 0.95^200 each, 0.7 % for one of all 200."""
    rounds = [drawn(200, share=0.05, seed=1, round_no=number) for number in range(200)]
    assert all(len(set(one.tolist())) == 10 and (np.diff(one) > 0).all() for one in rounds)
    assert np.array_equal(rounds[7], drawn(200, share=0.05, seed=1, round_no=7))
    assert not np.array_equal(rounds[7], drawn(200, share=0.05, seed=2, round_no=7))
    assert len(set(np.concatenate(rounds).tolist())) == 200


@pytest.mark.parametrize(("members", "share", "count"), [(5, 0.01, 1), (10, 0.25, 2), (3, 1.0, 3), (1, 0.5, 1)])
def test_at_least_one_takes_part(members: int, share: float, count: int) -> None:
    assert len(drawn(members, share=share, seed=0, round_no=0)) == count


def test_a_personal_row_uses_updates_of_earlier_rounds_by_their_age() -> None:
    """Three rounds old: (1 + 3)^-0.5 = 0.5."""
    latest = np.array([4, 1, NEVER])
    usable, own, discount = standing(latest, round_no=4, personal=True, exponent=0.5)
    assert usable.tolist() == own.tolist() == [True, True, False]
    assert discount[:2].tolist() == [1.0, 0.5]
    usable, own, discount = standing(latest, round_no=4, personal=True, exponent=math.inf)
    assert (usable.tolist(), own.tolist(), discount.tolist()) == ([True, True, False], [True, True, False], [1, 0, 1])


def test_a_common_model_is_made_of_the_round_alone() -> None:
    usable, own, _ = standing(np.array([4, 1, NEVER]), round_no=4, personal=False, exponent=0.5)
    assert usable.tolist() == own.tolist() == [True, False, False]


@pytest.mark.parametrize("name", STRATEGIES)
def test_algorithms_whose_rounds_need_everyone_say_so(name: str) -> None:
    refused = {"fedavgm", "fedadam", "fedamp", "pfedsim", "f-fedap", "scaffold"}
    if name not in refused:
        require_participation(make_strategy(name), 0.5)
        return
    with pytest.raises(InvalidInput, match="participation"):
        require_participation(make_strategy(name), 0.5)
    require_participation(make_strategy(name), 1.0)


@pytest.mark.parametrize("share", [0.0, 1.5, math.nan])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InvalidInput, match="above 0, up to 1"):
        require_participation(make_strategy("fedap"), share)
