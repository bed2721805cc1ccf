"""Partial participation: decides who takes part in a round, and how to weight the latest updates of the others.

A share of the members is drawn for every round, only from the run's seed and the round number. Updates of earlier
rounds are used if an algorithm keeps part of the member's own model (FedAP): the member's own update counts fully,
because it has not trained since, and the others' are discounted by age. Otherwise (FedAvg) a round is the mean of those
who took part. Independent of names and of how members are asked.
"""

from __future__ import annotations

import math

import numpy as np

from fedap_core import mixing
from fedap_core.arrays import BoolArray, FloatArray, IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.randomness import generator
from fedap_core.strategies.base import Measure, Strategy

NEVER = -1
"""Stands for a round number: the member has not taken part yet."""


def require_participation(strategy: Strategy, share: float) -> None:
    """Refuse an invalid share, and a partial share with an algorithm whose rounds need all members."""
    if not 0.0 < share <= 1.0:
        raise InvalidInput("participation", share, "a number above 0, up to 1")
    if share == 1.0:
        return
    if strategy.needs_barrier:
        expected = f"1: a round of {strategy.name} needs all updates of that round"
        raise InvalidInput("participation", share, expected, "Use another algorithm, for example fedap or fedavg.")
    if strategy.round_measure is not Measure.NONE:
        expected = f"1: {strategy.name} measures everyone in one of its rounds"
        raise InvalidInput("participation", share, expected, "Use fedap, which measures before the first round.")


def drawn(members: int, *, share: float, seed: int, round_no: int) -> IndexArray:
    """Return the positions of those who take part in a round, ascending: round(share * members), at least one."""
    count = max(1, round(share * members))
    if count >= members:
        return np.arange(members, dtype=np.int64)
    chosen = generator(seed, purpose="participation", round_no=round_no).choice(members, size=count, replace=False)
    return np.sort(chosen).astype(np.int64)


def standing(
    latest: IndexArray, *, round_no: int, personal: bool, exponent: float
) -> tuple[BoolArray, BoolArray, FloatArray]:
    """Return (usable, own, discount), each (n,), as `mixing.restrict` takes them.

    latest: (n,) the round of each member's latest update, or NEVER. personal: rows keep part of the member's own model.
    exponent: that of `mixing.age_discount`.
    """
    took_part = latest != NEVER
    ages = np.where(took_part, round_no - latest, 0)
    discount = mixing.age_discount(ages, exponent=exponent if personal else math.inf)
    own = took_part if personal else latest == round_no
    return (took_part & (discount > 0.0)) | own, own, discount
