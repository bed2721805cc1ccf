"""Measures what layer statistics reveal and what noise in them costs: W, accuracy and class proportions, per budget."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from fedap_core.arrays import FloatArray
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.private_statistics import private_statistics
from fedap_core.strategies import Evidence
from participant.record.model_file import module_of, read_model
from participant.training.privacy_budget import StatisticsPrivacy
from scripts.engines.base import EngineOptions
from scripts.engines.inline import anchor_file, initial_file, run_inline
from scripts.experiments.audit.command import UNITS
from scripts.experiments.audit.properties import ProportionAttack
from scripts.report.page.leakage import EXACT
from scripts.run.cohort import Cohort
from scripts.run.private_measuring import measured_privately, unit_moments
from scripts.run.settings import RunSettings

_NO_CLIP = 1e12


class StatisticsAudit:
    """One cohort under one anchor. Whatever does not depend on a budget is computed once."""

    def __init__(self, base: RunSettings, cohort: Cohort, root: Path, *, workers: int) -> None:
        self._base = base
        self._cohort = cohort
        self._options = EngineOptions(root=root, workers=workers)
        self._anchor = anchor_file(base, cohort, initial_file(base, cohort, self._options), self._options)
        self._counts = tuple(len(client.splits["train"]) for client in cohort.clients)

    def judge(self, name: str, privacy: StatisticsPrivacy | None) -> dict[str, float | None]:
        """Measure one variant. name: exact, averaged by unit, or a budget."""
        stats = self._exact if name == EXACT else self._statistics(privacy)
        apart = off_diagonal_correlation(self._exact_weights, self._weights(stats))
        accuracy = None
        if name != UNITS:
            settings = self._base.model_copy(update={"statistics_privacy": privacy})
            accuracy = accuracy_of(settings, self._cohort, self._options.root, workers=self._options.workers)
        return {"correlation": apart, "accuracy": accuracy, **self._properties(stats)}

    @cached_property
    def _exact(self) -> tuple[BnStats, ...]:
        by_sample = self._base.model_copy(update={"statistics_privacy": StatisticsPrivacy(unit="sample")})
        return self._averaged(by_sample)

    @cached_property
    def _exact_weights(self) -> FloatArray:
        return self._weights(self._exact)

    def _statistics(self, privacy: StatisticsPrivacy | None) -> tuple[BnStats, ...]:
        """Return statistics with noise, or only averaged by unit."""
        if privacy is None:
            return self._averaged(self._base)
        settings = self._base.model_copy(update={"statistics_privacy": privacy})
        return measured_privately(settings, self._cohort, self._anchor)

    def _averaged(self, settings: RunSettings) -> tuple[BnStats, ...]:
        return tuple(
            private_statistics(one, clip=_NO_CLIP, noise_multiplier=0.0, noise=np.zeros(one.vectors.shape[1]))
            for one in unit_moments(settings, self._cohort, self._anchor)
        )

    def _weights(self, stats: tuple[BnStats, ...]) -> FloatArray:
        return self._base.strategy().mixing(Evidence(counts=self._counts, stats=stats)).weights

    @cached_property
    def _attacks(self) -> tuple[ProportionAttack, ProportionAttack]:
        """Attacks on clients at even and at odd places, each trained on data of the others."""
        spec, state, _ = read_model(self._anchor)
        anchor = module_of(spec, state)

        def against(side: int) -> ProportionAttack:
            others = [client.splits["test"] for client in self._cohort.clients[1 - side :: 2]]
            return ProportionAttack(self._cohort, np.concatenate(others), anchor, seed=self._base.seed)

        return against(0), against(1)

    def _properties(self, stats: tuple[BnStats, ...]) -> dict[str, float]:
        """Return error, guess and AUC of the attack on class proportions, means over both sides."""
        found = []
        for side, attack in enumerate(self._attacks):
            labels = [self._cohort.data.y[client.splits["train"]] for client in self._cohort.clients[side::2]]
            width = len(self._cohort.data.classes)
            truth = np.stack([np.bincount(one, minlength=width) / len(one) for one in labels])
            found.append(attack.judge(stats[side::2], truth))
        return {name: float(np.mean([getattr(one, name) for one in found])) for name in ("error", "guess", "auc")}


def off_diagonal_correlation(one: FloatArray, other: FloatArray) -> float:
    """Return Pearson's correlation over the weights that members have in each other's rows."""
    apart = ~np.eye(len(one), dtype=bool)
    a, b = one[apart], other[apart]
    return float(np.corrcoef(a, b)[0, 1]) if a.std() > 0 and b.std() > 0 else 0.0


def accuracy_of(settings: RunSettings, cohort: Cohort, root: Path, *, workers: int) -> float:
    """Return the mean test accuracy of a whole run over its clients."""
    folder = run_inline(settings, cohort, EngineOptions(root=root, workers=workers))
    last = folder.records()[-1].mean
    if last is None:
        raise InvalidInput("audit", folder.path, "a run that was evaluated at its end")
    return float(last)
