"""Partial participation: who takes part in a round, and what the latest updates of those who did not are worth.

A share of the members is drawn anew for every round, from the run's seed and the round alone. Updates of earlier rounds
are used where an algorithm keeps a part of the member's own model (FedAP): the member's own counts as it is, because it
has not trained since, and others' by their age. Elsewhere (FedAvg) a round is the mean of those who took part in it.
Knows neither names nor how anybody is asked.
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
"""In place of a round: the member has not taken part yet."""


def require_participation(strategy: Strategy, share: float) -> None:
    """Refuse a share that is none, and algorithms whose rounds need everyone."""
    if not 0.0 < share <= 1.0:
        raise InvalidInput("participation", share, "a number above 0, up to 1")
    if share == 1.0:
        return
    if strategy.needs_barrier:
        expected = f"1: a round of {strategy.name} needs everyone's updates of that round"
        raise InvalidInput("participation", share, expected, "Use another algorithm, for example fedap or fedavg.")
    if strategy.round_measure is not Measure.NONE:
        expected = f"1: {strategy.name} measures everyone in one of its rounds"
        raise InvalidInput("participation", share, expected, "Use fedap, which measures before the first round.")


def drawn(members: int, *, share: float, seed: int, round_no: int) -> IndexArray:
    """Places of those who take part in a round, ascending: round(share * members), at least one."""
    count = max(1, round(share * members))
    if count >= members:
        return np.arange(members, dtype=np.int64)
    chosen = generator(seed, purpose="participation", round_no=round_no).choice(members, size=count, replace=False)
    return np.sort(chosen).astype(np.int64)


def standing(
    latest: IndexArray, *, round_no: int, personal: bool, exponent: float
) -> tuple[BoolArray, BoolArray, FloatArray]:
    """(usable, own, discount), each (n,), as `mixing.restrict` takes them.

    latest: (n,) the round of each member's latest update, or NEVER. personal: rows keep a part of the member's own.
    exponent: of `mixing.age_discount`.
    """
    took_part = latest != NEVER
    ages = np.where(took_part, round_no - latest, 0)
    discount = mixing.age_discount(ages, exponent=exponent if personal else math.inf)
    own = took_part if personal else latest == round_no
    return (took_part & (discount > 0.0)) | own, own, discount
