"""Measures the strength of an attack that scores every sample: area under the ROC curve, hits at few false alarms.

Pure numpy. An attack takes samples with high scores for members; an area of 0.5 is guessing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedap_core.arrays import FloatArray
from fedap_core.metrics import roc_scores
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


def roc_of(members: FloatArray, others: FloatArray) -> tuple[float, float]:
    """Return the area under the curve, and the share of members found at 1 % false alarms."""
    is_member = np.repeat((True, False), (members.size, others.size))
    return roc_scores(is_member, np.concatenate((members, others)), false_alarms=FALSE_ALARMS)


def strength_of(scores: Sequence[tuple[FloatArray, FloatArray]], *, seed: int) -> Strength:
    """Return an attack's strength. scores: one pair (members, others) for each client."""
    areas, hits = np.array([roc_of(members, others) for members, others in scores]).T
    rng = generator(seed, purpose="audit interval")
    means = areas[rng.integers(0, areas.size, (2000, areas.size))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Strength(auc=float(areas.mean()), low=float(low), high=float(high), hits=float(hits.mean()))
