"""How strong an attack is that gives every sample a number: area under the ROC curve, hits at few false alarms.

Pure numpy. An attack says «member» of samples with high numbers; 0.5 is guessing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedap_core.arrays import FloatArray
from fedap_core.errors import InvalidInput
from fedap_core.randomness import generator

FALSE_ALARMS = 0.01


@dataclass(frozen=True, kw_only=True)
class Strength:
    """auc: mean over clients, with a 95 % interval from resampling clients. hits: mean share of members found at 1 %
    false alarms."""

    auc: float
    low: float
    high: float
    hits: float


def auc_of(members: FloatArray, others: FloatArray) -> float:
    """The chance that a random member has a higher number than a random other sample; ties count half."""
    if not members.size or not others.size:
        raise InvalidInput("attack", f"{members.size} members, {others.size} others", "at least one of each")
    values = np.concatenate((members, others))
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    wins = ranks[: members.size].sum() - members.size * (members.size + 1) / 2
    return float(wins / (members.size * others.size))


def hits_at(members: FloatArray, others: FloatArray, false_alarms: float = FALSE_ALARMS) -> float:
    """The share of members above a threshold that at most this share of the others is above."""
    allowed = int(np.floor(false_alarms * others.size))
    threshold = np.sort(others)[::-1][allowed] if allowed < others.size else -np.inf
    return float(np.mean(members > threshold))


def strength_of(scores: Sequence[tuple[FloatArray, FloatArray]], *, seed: int) -> Strength:
    """One pair (members, others) of numbers for each client."""
    areas = np.array([auc_of(members, others) for members, others in scores])
    rng = generator(seed, purpose="audit interval")
    means = areas[rng.integers(0, areas.size, (2000, areas.size))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    hits = float(np.mean([hits_at(members, others) for members, others in scores]))
    return Strength(auc=float(areas.mean()), low=float(low), high=float(high), hits=hits)
