"""What layer statistics tell, and what noise in them costs: W, accuracy and class proportions, budget by budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.private_statistics import private_statistics
from fedap_core.strategies import Evidence
from participant.record.model_file import module_of, read_model
from participant.training.privacy_budget import StatisticsPrivacy
from scripts.engines.base import EngineOptions
from scripts.engines.inline import anchor_file, initial_file, run_inline
from scripts.experiments.audit.command import EXACT, UNITS, off_diagonal_correlation
from scripts.experiments.audit.properties import ProportionAttack
from scripts.run.cohort import Cohort
from scripts.run.private_measuring import measured_privately, unit_moments
from scripts.run.settings import RunSettings

_NO_CLIP = 1e12


class StatisticsAudit:
    """One cohort under one anchor."""

    def __init__(self, base: RunSettings, cohort: Cohort, root: Path, *, workers: int) -> None:
        self._base = base
        self._cohort = cohort
        self._options = EngineOptions(root=root, workers=workers)
        self._anchor = anchor_file(base, cohort, initial_file(base, cohort, self._options), self._options)
        self._counts = tuple(len(client.splits["train"]) for client in cohort.clients)

    def judge(self, name: str, privacy: StatisticsPrivacy | None) -> dict[str, float | None]:
        """name: exact, averaged by unit, or a budget's."""
        stats = self._statistics(name, privacy)
        weights = self._weights(stats)
        apart = off_diagonal_correlation(self._weights(self._statistics(EXACT, None)), weights)
        error, guess, auc = self._properties(stats)
        accuracy = None if name == UNITS else self._accuracy(privacy)
        return {"correlation": apart, "accuracy": accuracy, "error": error, "guess": guess, "auc": auc}

    def _statistics(self, name: str, privacy: StatisticsPrivacy | None) -> tuple[BnStats, ...]:
        if privacy is not None:
            settings = self._base.model_copy(update={"statistics_privacy": privacy})
            return measured_privately(settings, self._cohort, self._anchor)
        settings = self._base
        if name == EXACT:
            settings = settings.model_copy(update={"statistics_privacy": StatisticsPrivacy(unit="sample")})
        return tuple(
            private_statistics(one, clip=_NO_CLIP, noise_multiplier=0.0, noise=np.zeros(one.vectors.shape[1]))
            for one in unit_moments(settings, self._cohort, self._anchor)
        )

    def _weights(self, stats: tuple[BnStats, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return self._base.strategy().mixing(Evidence(counts=self._counts, stats=stats)).weights

    def _accuracy(self, privacy: StatisticsPrivacy | None) -> float:
        """Mean test accuracy of a whole run, over its clients."""
        settings = self._base.model_copy(update={"statistics_privacy": privacy})
        folder = run_inline(settings, self._cohort, self._options)
        last = folder.records()[-1].mean
        if last is None:
            raise InvalidInput("audit", folder.path, "a run that was evaluated at its end")
        return float(last)

    def _properties(self, stats: tuple[BnStats, ...]) -> tuple[float, float, float]:
        """Clients at even places are attacked with data of those at odd ones, and the other way round."""
        spec, state, _ = read_model(self._anchor)
        anchor = module_of(spec, state)
        found = []
        for side in (0, 1):
            others = [client.splits["test"] for client in self._cohort.clients[1 - side :: 2]]
            attack = ProportionAttack(self._cohort, np.concatenate(others), anchor, seed=self._base.seed)
            labels = [self._cohort.data.y[client.splits["train"]] for client in self._cohort.clients[side::2]]
            width = len(self._cohort.data.classes)
            truth = np.stack([np.bincount(one, minlength=width) / len(one) for one in labels])
            found.append(attack.judge(stats[side::2], truth))
        return (
            float(np.mean([one.error for one in found])),
            float(np.mean([one.guess for one in found])),
            float(np.mean([one.auc for one in found])),
        )
