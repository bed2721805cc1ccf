"""Defines what one hostile member can send: each attack by name, as a function of everything it could know.

Attackers here know more than real ones: what honest members trained in the current round. Pure arrays; who is hostile,
and how that is countered, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedap_core.arrays import Float32Array


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One round of the hostile member.

    sent, trained: the model delivered to it, and the same after honest training. honest, given: (m, P), the honest
    members' updates of this round and the models delivered to them.
    """

    round_no: int
    sent: Float32Array
    trained: Float32Array
    honest: Float32Array
    given: Float32Array
    rng: np.random.Generator

    @property
    def step(self) -> float:
        """The median length of an honest step."""
        return float(np.median(np.linalg.norm((self.honest - self.given).astype(np.float64), axis=1)))

    @property
    def mean_step(self) -> Float32Array:
        return np.asarray((self.honest - self.given).mean(axis=0), dtype=np.float32)

    def noise(self, length: float) -> Float32Array:
        """Return a random vector of that length."""
        drawn = self.rng.standard_normal(self.sent.size)
        return np.asarray(length * drawn / np.linalg.norm(drawn), dtype=np.float32)


Forge = Callable[[Situation], Float32Array]


@dataclass(frozen=True, kw_only=True)
class AttackKind:
    """update: what is sent instead of the trained weights. samples: factor by which its hello exaggerates its count.

    twin: it sends the statistics of the first honest member as its own. labels: it trains on reversed labels.
    """

    description: str
    update: Forge = lambda now: now.trained
    samples: float = 1.0
    twin: bool = False
    labels: bool = False


def _flip(times: float) -> Forge:
    return lambda now: now.sent - np.float32(times) * (now.trained - now.sent)


def _drift(now: Situation) -> Float32Array:
    fixed = np.random.default_rng(0).standard_normal(now.sent.size)
    return now.trained + np.asarray(now.step * fixed / np.linalg.norm(fixed), dtype=np.float32)


def _a_little(now: Situation) -> Float32Array:
    return np.asarray(now.honest.mean(axis=0) - 1.5 * now.honest.std(axis=0), dtype=np.float32)


def _one_tensor(now: Situation) -> Float32Array:
    """Change ten values by the length of an honest step; the last ones in wire order belong to the head or a bias."""
    update = now.trained.copy()
    update[-10:] += np.float32(now.step)
    return update


ATTACKS: dict[str, AttackKind] = {
    "none": AttackKind(description="a fifth honest member"),
    "huge": AttackKind(
        description="900,000 everywhere, from the first round", update=lambda now: np.full_like(now.sent, 9e5)
    ),
    "nan": AttackKind(description="NaN everywhere", update=lambda now: np.full_like(now.sent, np.nan)),
    "zeros": AttackKind(description="zeros", update=lambda now: np.zeros_like(now.sent)),
    "random": AttackKind(
        description="random weights", update=lambda now: now.rng.normal(0, 0.1, now.sent.size).astype(np.float32)
    ),
    "flip": AttackKind(description="its step reversed", update=_flip(1.0)),
    "flip-2": AttackKind(description="its step reversed, twice as long", update=_flip(2.0)),
    "flip-10": AttackKind(description="its step reversed, ten times as long", update=_flip(10.0)),
    "noise": AttackKind(
        description="noise of ten honest steps", update=lambda now: now.sent + now.noise(10 * now.step)
    ),
    "quiet-noise": AttackKind(
        description="noise of one honest step", update=lambda now: now.trained + now.noise(now.step)
    ),
    "drift": AttackKind(description="the same direction in every round, one honest step long", update=_drift),
    "product": AttackKind(
        description="half the honest mean step, reversed (inner-product manipulation)",
        update=lambda now: now.sent - np.float32(0.5) * now.mean_step,
    ),
    "a-little": AttackKind(
        description="1.5 deviations below the honest mean, in every value (a little is enough)", update=_a_little
    ),
    "few-values": AttackKind(description="one honest step, all of it in ten values", update=_one_tensor),
    "alternating": AttackKind(
        description="ten times reversed in every second round",
        update=lambda now: now.trained if now.round_no % 2 else _flip(10.0)(now),
    ),
    "labels": AttackKind(description="trains on reversed labels", labels=True),
    "samples": AttackKind(
        description="says it has 1000 times its samples, and reverses its step", update=_flip(1.0), samples=1000.0
    ),
    "twin": AttackKind(
        description="sends a victim's statistics as its own, and reverses its step", update=_flip(1.0), twin=True
    ),
    "twin-labels": AttackKind(
        description="sends a victim's statistics, and trains on reversed labels", twin=True, labels=True
    ),
}
