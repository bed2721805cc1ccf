"""Runs one attack against one algorithm under one defence: a whole run in which the last member is hostile.

The coordinator's own code decides (its machine, admission and mixing), under the virtual clock, where all members take
equally long and the hostile one reports last. The accuracy of the honest members' models is measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coordinator.decisions import facts
from coordinator.decisions.actions import Order
from coordinator.decisions.rules import AdmissionRules, Rules
from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.nn.state import State
from fedap_core.randomness import generator
from fedap_core.strategies import Measure
from participant.training.local import LocalReport
from scripts.engines.base import EngineOptions
from scripts.engines.continuous import VirtualRun
from scripts.engines.virtual_members import VirtualFederation, open_federation
from scripts.engines.workbench import Home
from scripts.experiments.attacks.kinds import AttackKind, Situation
from scripts.experiments.attacks.outcomes import AttackOutcome
from scripts.run.clock_settings import AsyncFolder, AsyncSettings, ClockSettings
from scripts.run.cohort import Cohort
from scripts.run.settings import RunSettings

TAIL_RECORDS = 5
"""Accuracy is the mean over this many of the last rounds, because delivered models swing."""

EPOCH_S = 10.0

_NOTHING = AdmissionRules(max_value=1e38, max_statistic=1e18, max_step=1e30, max_outlier=1e30)


class HostileHome(Home):
    """Trains like every member, then reports a forged update."""

    def __init__(self, home: Home, others: Sequence[Home], attack: AttackKind, seed: int) -> None:
        super().__init__(home.client, home.splits, home.strategy)
        self._others = others
        self._attack = attack
        self._seed = seed
        self._forged: Float32Array | None = None

    @property
    def train_samples(self) -> int:
        return int(self.client.train_samples * self._attack.samples)

    @property
    def update(self) -> Float32Array:
        return self.client.shared if self._forged is None else self._forged

    def measure(self, anchor: State, what: Measure) -> BnStats:
        """Measure, under a twin attack the victim's data with its own sample count: as plausible as a lie can be."""
        source = self._others[0].client if self._attack.twin else self.client
        found = source.measure(anchor, what)
        factor = self.train_samples / found.samples
        layers = tuple(
            LayerMoments(
                name=one.name, count=one.count // found.samples * self.train_samples, mean=one.mean,
                variance=one.variance, covariance=one.covariance,
            )
            for one in found.layers
        )  # fmt: skip
        return found if factor == 1.0 else BnStats(samples=self.train_samples, layers=layers)

    def train(self, order: Order) -> LocalReport:
        sent = self.client.shared.copy()
        report = super().train(order)
        given = [home.given for home in self._others]
        now = Situation(
            round_no=order.round_no,
            sent=sent,
            trained=self.client.shared.copy(),
            honest=np.stack([home.client.shared for home in self._others]),
            given=np.stack([sent if one is None else one for one in given]),
            rng=generator(self._seed, purpose="attack", round_no=order.round_no),
        )
        self._forged = np.asarray(self._attack.update(now), dtype=np.float32)
        return report


def settings_of(run: RunSettings) -> AsyncSettings:
    """Return settings with the coordinator's rounds, all members equally fast, recorded once per round."""
    clock = ClockSettings(epoch_s=EPOCH_S, by_samples=False, look_s=EPOCH_S * run.sgd.epochs)
    return AsyncSettings(run=run, clock=clock)


def without_admission(rules: Rules) -> Rules:
    """Return rules that refuse only values that are not finite, and exclude nobody."""
    members = dataclasses.replace(rules.members, strikes=10**9, max_samples=2**62)
    return dataclasses.replace(rules, admission=_NOTHING, members=members)


def attacked_cohort(cohort: Cohort, attack: AttackKind | None, *, honest: int) -> Cohort:
    """Return the first `honest` clients and, if there is an attack, one more, whose labels may be reversed."""
    clients = cohort.clients[: honest + (attack is not None)]
    data = cohort.data
    if attack is not None and attack.labels:
        labels = data.y.copy()
        mine = clients[-1].splits["train"]
        labels[mine] = len(data.classes) - 1 - labels[mine]
        data = dataclasses.replace(data, y=labels)
    return Cohort(data=data, clients=clients)


def run_attack(
    run: RunSettings, cohort: Cohort, attack: AttackKind | None, *, honest: int, admission: bool, folder: Path
) -> AttackOutcome:
    """Make a whole run; attack None: with the honest members only."""
    settings = settings_of(run)
    there = attacked_cohort(cohort, attack, honest=honest)
    federation = open_federation(settings, there, EngineOptions(root=folder))
    if not admission:
        federation = dataclasses.replace(federation, rules=without_admission(federation.rules))
    if attack is not None:
        _turn_hostile(federation, attack, run.seed)
    kept = AsyncFolder(folder, settings)
    kept.begin_anew({}, {"clients": list(federation.homes)}, keep_models=False)
    run_of = VirtualRun(settings, federation, kept, EngineOptions(root=folder, keep_models=False))
    run_of.run()
    accuracies = np.asarray([one.values("accuracy") for one in kept.records()][-TAIL_RECORDS:])[:, :honest]
    journalled = [fact for fact, _ in run_of.facts]
    codes = [fact.code for fact in journalled if isinstance(fact, facts.Refused)]
    return AttackOutcome(
        accuracies=tuple((100 * accuracies.mean(axis=0)).tolist()),
        refused={code: codes.count(code) for code in sorted(set(codes))},
        excluded=any(isinstance(fact, facts.Quarantined) for fact in journalled),
    )


def _turn_hostile(federation: VirtualFederation, attack: AttackKind, seed: int) -> None:
    """Make the last member by name hostile."""
    *others, name = federation.homes
    homes = [federation.homes[one] for one in others]
    federation.homes[name] = HostileHome(federation.homes[name], homes, attack, seed)
    federation.bench.hostile = frozenset({name})
