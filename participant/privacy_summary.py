"""What `check` prints about private statistics and updates: the budget, what it protects, how large the noise will be.

Statistics are measured locally under the initial model; nothing is sent.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedap_core.arrays import IndexArray
from fedap_core.distances import diagonal_distances, total_distance
from fedap_core.private_statistics import UnitMoments, moments_of, noise_in_distance
from fedap_core.private_updates import noise_deviation
from fedap_core.randomness import generator
from fedap_core.strategies import Measure, Strategy
from participant.joining import LocalSetup
from participant.record.model_file import module_of, read_model
from participant.training.local import LocalClient, LocalPlan
from participant.training.privacy_budget import StatisticsPrivacy, UpdatePrivacy, spent_epsilon
from participant.training.private_release import refuse_unprotected, unit_of
from participant.training.private_updates import refuse_unclipped
from protocol.plan import Sgd


def privacy_lines(
    home: LocalSetup, strategy: Strategy, privacy: StatisticsPrivacy, *, train: IndexArray, model_file: Path | None
) -> list[str]:
    """Return the lines about statistics; refuse an algorithm whose statistics cannot be protected."""
    refuse_unprotected(strategy)
    if strategy.first_measure is Measure.NONE:
        return ["statistics_privacy: this algorithm sends no statistics, so it adds nothing", ""]
    unit, units = unit_of(home.data.dataset, privacy.unit, train)
    measured = _measured(home, strategy, train, units, model_file)
    clip = privacy.clip_of(sum(layer.channels for layer in measured.layers))
    multiplier = privacy.noise_multiplier
    noise = noise_in_distance(measured, clip=clip, noise_multiplier=multiplier)
    cut = float(np.mean(measured.norms > clip))
    limit = "no limit" if privacy.limit_epsilon is None else f"limit {privacy.limit_epsilon:g}"
    protected = f"one {unit} ({len(measured.vectors)} of them); counts of samples are not protected"
    halves = _between_halves(measured)
    return [
        f"statistics_privacy: epsilon {privacy.epsilon:g}, delta {privacy.delta:g} per release, {limit}",
        f"  protects {protected}",
        f"  noise of {noise:.3g} in a distance; {halves:.3g} is the distance between random halves of your own data",
        f"  clip {clip:.3g}, which shortens {cut:.0%} of the {unit}s (shown only to you)",
        "",
    ]


def update_lines(strategy: Strategy, privacy: UpdatePrivacy, *, rounds: int, values: int) -> list[str]:
    """Return the lines about updates. values: how many values one update has."""
    refuse_unclipped(strategy)
    if not values:
        return ["update_privacy: this algorithm sends no weights, so it adds nothing", ""]
    deviation = noise_deviation(privacy.clip, privacy.noise_multiplier)
    together = spent_epsilon([privacy.noise_multiplier] * rounds, privacy.delta)
    limit = "no limit" if privacy.limit_epsilon is None else f"limit {privacy.limit_epsilon:g}"
    if privacy.limit_epsilon is not None and together > privacy.limit_epsilon * (1 + 1e-9):
        limit += ": such a run is refused"
    cost = f"epsilon {privacy.epsilon:g} per round, {together:.3g} for {rounds} rounds, delta {privacy.delta:g}"
    noise = f"{deviation * values**0.5:.3g} in an update ({deviation:.3g} in each of {values:,} values)"
    return [
        f"update_privacy: {cost}, {limit}",
        "  protects the silo: everything that your data contribute to updates, but not statistics, scores and counts",
        f"  clip {privacy.clip:g}; noise of length {noise}",
        "",
    ]


def _measured(
    home: LocalSetup, strategy: Strategy, train: IndexArray, units: IndexArray, model_file: Path | None
) -> UnitMoments:
    plan = LocalPlan(strategy=strategy, sgd=Sgd(), seed=0)
    module = module_of(home.spec, {} if model_file is None else read_model(model_file)[1])
    splits = {"train": home.data.samples(train)}
    client = LocalClient("check", splits=splits, module=module, spec=home.spec, plan=plan)
    return client.measure_units(client.state(), strategy.first_measure, units)


def _between_halves(measured: UnitMoments) -> float:
    """Return the distance between the statistics of two random halves of the units, as a yardstick for the noise."""
    order = generator(0, purpose="halves").permutation(len(measured.vectors))
    halves = (order[::2], order[1::2]) if len(order) > 1 else (order, order)
    stats = [
        moments_of(
            measured.layers, measured.reference + measured.scale * measured.vectors[half].mean(axis=0), samples=1
        )
        for half in halves
    ]
    return float(total_distance(diagonal_distances(stats))[0, 1])
