"""Measures all clients' layer statistics with the noise that participants would add: the lab's repeatable version.

The arithmetic is the participant's; only the noise differs: it comes from the run's seed instead of a secret.
"""

from __future__ import annotations

from pathlib import Path

import torch

from fedap_core.arrays import FloatArray
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.nn.statistics import unit_inputs
from fedap_core.private_statistics import UnitMoments, private_statistics
from fedap_core.randomness import generator
from fedap_core.strategies import Measure
from participant.record.model_file import module_of, read_model
from participant.training.private_release import refuse_unprotected, unit_of
from scripts.run.cohort import Client, Cohort
from scripts.run.settings import RunSettings


def measured_privately(settings: RunSettings, cohort: Cohort, anchor: Path) -> tuple[BnStats, ...]:
    """Return the statistics that each client would send under `settings.statistics_privacy`."""
    privacy = settings.statistics_privacy
    if privacy is None:
        raise InvalidInput("statistics_privacy", "none", "a budget")
    refuse_unprotected(settings.strategy())
    multiplier = privacy.noise_multiplier
    found = []
    for client, measured in zip(cohort.clients, unit_moments(settings, cohort, anchor), strict=True):
        rng = generator(settings.seed, purpose="private statistics", participant=client.name)
        clip = privacy.clip_of(sum(layer.channels for layer in measured.layers))
        noise: FloatArray = rng.standard_normal((measured.vectors.shape[1],))
        found.append(private_statistics(measured, clip=clip, noise_multiplier=multiplier, noise=noise))
    return tuple(found)


def unit_moments(settings: RunSettings, cohort: Cohort, anchor: Path) -> tuple[UnitMoments, ...]:
    """Return the moments of each client's units, before clipping and noise."""
    spec, state, _ = read_model(anchor)
    module = module_of(spec, state)
    head = spec.head[-1] if settings.strategy().first_measure is Measure.HEAD_INPUTS else None
    wanted = "group" if settings.statistics_privacy is None else settings.statistics_privacy.unit

    def one(client: Client) -> UnitMoments:
        train = client.splits["train"]
        _, units = unit_of(cohort.data, wanted, train)
        batches = cohort.gather(train, torch.device("cpu")).inputs(settings.compute.evaluation_batch_size)
        return unit_inputs(module, batches, units, head=head)

    return tuple(one(client) for client in cohort.clients)
