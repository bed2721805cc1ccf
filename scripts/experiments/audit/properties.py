"""Property inference: which classes a client has, and in which proportions, from the layer statistics that it sends.

The attacker makes shadow clients from its own data, learns to predict class proportions from statistics (ridge
regression), and applies that to the statistics of real clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedap_core.arrays import FloatArray, IndexArray
from fedap_core.bn_stats import BnStats
from fedap_core.nn.statistics import unit_inputs
from fedap_core.private_statistics import moments_of
from fedap_core.randomness import generator
from scripts.experiments.audit.strength import roc_of
from scripts.run.cohort import Cohort

SHADOWS = 400
PRESENT = 0.01
"""A class counts as present if it makes up at least this share of a client's samples."""
_RIDGE = 1e-2


@dataclass(frozen=True, kw_only=True)
class Properties:
    """error: mean absolute error of a class's share; guess: the same when always predicting the mean. auc: present
    against absent classes, 0.5 is guessing."""

    error: float
    guess: float
    auc: float


class ProportionAttack:
    """An attack trained once, on the attacker's own data, under the run's anchor."""

    def __init__(self, cohort: Cohort, positions: IndexArray, anchor: nn.Module, *, seed: int) -> None:
        self._classes = len(cohort.data.classes)
        batches = cohort.gather(positions, torch.device("cpu")).inputs(256)
        units = np.arange(len(positions))
        known = unit_inputs(anchor, batches, units)
        labels = cohort.data.y[positions]
        rng = generator(seed, purpose="shadow clients")
        features, targets = [], []
        for _ in range(SHADOWS):
            chosen = self._shadow(labels, rng)
            vector = known.reference + known.scale * known.vectors[chosen].mean(axis=0)
            features.append(_features(moments_of(known.layers, vector, samples=len(chosen))))
            targets.append(_proportions(labels[chosen], self._classes))
        self._fit(np.stack(features), np.stack(targets))

    def judge(self, stats: Sequence[BnStats], truth: FloatArray) -> Properties:
        """Evaluate the attack. truth: (clients, classes), the real proportions."""
        z = (np.stack([_features(one) for one in stats]) - self._centre) / self._spread
        guessed = np.clip(z @ self._slopes + self._mean, 0.0, 1.0)
        present = truth >= PRESENT
        return Properties(
            error=float(np.abs(guessed - truth).mean()),
            guess=float(np.abs(self._mean - truth).mean()),
            auc=roc_of(guessed[present], guessed[~present])[0] if present.any() and not present.all() else 0.5,
        )

    def _shadow(self, labels: IndexArray, rng: np.random.Generator) -> IndexArray:
        """Draw the samples of a shadow client with random proportions, some classes almost absent."""
        shares = rng.dirichlet(np.full(self._classes, rng.choice((0.1, 0.3, 1.0))))
        weights = shares[labels] / np.maximum(np.bincount(labels, minlength=self._classes), 1)[labels]
        size = min(len(labels), int(rng.integers(100, 600)))
        chosen: IndexArray = rng.choice(len(labels), size=size, p=weights / weights.sum())
        return chosen

    def _fit(self, features: FloatArray, targets: FloatArray) -> None:
        self._centre, self._spread = features.mean(axis=0), features.std(axis=0) + 1e-9
        self._mean = targets.mean(axis=0)
        z = (features - self._centre) / self._spread
        gram = z.T @ z + _RIDGE * len(z) * np.eye(z.shape[1])
        self._slopes = np.linalg.solve(gram, z.T @ (targets - self._mean))


def _features(stats: BnStats) -> FloatArray:
    return np.concatenate([np.concatenate((one.mean, np.sqrt(one.variance))) for one in stats.layers])


def _proportions(labels: IndexArray, classes: int) -> FloatArray:
    return np.bincount(labels, minlength=classes) / len(labels)
