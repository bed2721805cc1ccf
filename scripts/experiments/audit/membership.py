"""Membership inference: was a sample among a client's training samples? By its loss, and by a reference model.

Members are training samples, non-members test samples of the same client, so that they differ only by training.
Reference models are trained on test samples of other clients, which stand for an attacker's own data of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from fedap_core.arrays import FloatArray, IndexArray
from fedap_core.nn.heads import evaluating
from fedap_core.nn.reestimation import reestimate_batch_norm
from fedap_core.nn.samples import Samples
from fedap_core.nn.state import FlatModel, State
from fedap_core.nn.training import Randomness, train
from fedap_core.randomness import derive_seed, generator
from participant.record.model_file import module_of, read_model
from scripts.engines.base import EngineOptions
from scripts.engines.inline import initial_file
from scripts.experiments.audit.capture import Captured
from scripts.experiments.audit.strength import Strength, strength_of
from scripts.run.cohort import Cohort
from scripts.run.settings import RunSettings

MOST_SAMPLES = 500
"""Members and non-members used per client."""
REFERENCE_EPOCHS = 15
_CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What an attacker has: data of clients other than those that it attacks, and a model trained on them.
    Clients at even places are attacked with the data of those at odd places, and vice versa."""

    samples: tuple[Samples, Samples]
    references: tuple[State, State]

    def of(self, client: int) -> tuple[Samples, State]:
        side = (client + 1) % 2
        return self.samples[side], self.references[side]


def outside_of(settings: RunSettings, cohort: Cohort, root: Path) -> Outside:
    """Train the reference models of both sides from the initial model."""
    spec, initial, _ = read_model(initial_file(settings, cohort, EngineOptions(root=root)))
    seed, samples, models = settings.seed, [], []
    for side in (0, 1):
        positions = np.concatenate([client.splits["test"] for client in cohort.clients[side::2]])
        samples.append(cohort.gather(positions, _CPU))
        model = FlatModel(module_of(spec, initial), spec.tensors, frozenset())
        noise = derive_seed(seed, purpose=f"audit noise {side}")
        randomness = Randomness(order=derive_seed(seed, purpose=f"audit order {side}"), noise=noise)
        train(model, samples[-1], settings=settings.sgd, randomness=randomness, epochs=REFERENCE_EPOCHS)
        models.append(model.state())
    return Outside(samples=(samples[0], samples[1]), references=(models[0], models[1]))


def membership(captured: Captured, cohort: Cohort, outside: Outside, seed: int) -> dict[str, Strength]:
    """Run every attack against every target; results by «target, attack»."""
    found: dict[str, list[tuple[FloatArray, FloatArray]]] = {}
    for place, client in enumerate(cohort.clients):
        sides = [_some(client.splits[part], seed, client.name) for part in ("train", "test")]
        both = [cohort.gather(positions, _CPU) for positions in sides]
        reference = [_losses(captured, outside.of(place)[1], one) for one in both]
        for target, model in _targets(captured, place, outside.of(place)[0]).items():
            losses = [_losses(captured, model, one) for one in both]
            found.setdefault(f"{target}, loss", []).append((-losses[0], -losses[1]))
            gains = [known - seen for known, seen in zip(reference, losses, strict=True)]
            found.setdefault(f"{target}, reference", []).append((gains[0], gains[1]))
    return {name: strength_of(scores, seed=seed) for name, scores in found.items()}


def _targets(captured: Captured, place: int, outside: Samples) -> Mapping[str, State]:
    targets = {"own model": captured.own[place]}
    if not captured.shared:
        return targets
    sent = captured.updates[place]
    seen = {name: sent[name] if name in captured.shared else value for name, value in captured.initial.items()}
    targets["weights that leave"] = _completed(captured, seen, outside)
    gives_to = captured.weights[:, place].copy()
    gives_to[place] = -1.0
    targets["mixture of another"] = captured.mixed[int(gives_to.argmax())]
    return targets


def _completed(captured: Captured, state: State, outside: Samples) -> State:
    """Complete a model whose batch norm was not sent, by re-estimating it on the attacker's own data."""
    if all(name in captured.shared for name in state if name.endswith("running_mean")):
        return state
    module = module_of(captured.spec, state)
    reestimate_batch_norm(module, outside.inputs(256))
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def _some(positions: IndexArray, seed: int, name: str) -> IndexArray:
    chosen = generator(seed, purpose="audit samples", participant=name).permutation(positions)[:MOST_SAMPLES]
    return np.sort(chosen)


def _losses(captured: Captured, state: State, samples: Samples) -> FloatArray:
    """Return the cross entropy of every sample, (n,)."""
    module = module_of(captured.spec, state)
    parts: Sequence[torch.Tensor]
    with evaluating(module), torch.no_grad():
        parts = [F.cross_entropy(module(x).double(), y, reduction="none") for x, y in samples.batches(256)]
    losses: FloatArray = torch.cat(list(parts)).numpy()
    return losses
