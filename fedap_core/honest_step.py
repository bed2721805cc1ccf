"""How far one round of honest training moves from the initial model, as measured by the creator of that model.

A coordinator has no training library and cannot measure it; the number is stored in the notes of the initial model
file, with the settings of the measurement. Decides the bound on steps that follows. Uses no files and no models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Protocol

NOTE = "training_step"
"""The name of the measurement in the notes of a model file."""

SLACK = 10.0
"""How many times longer than the measured step an update may be: other hospitals have other and more data."""


class TrainingPace(Protocol):
    """The settings that determine the length of a round's step; a plan's SGD settings are one implementation."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def momentum(self) -> float: ...
    @property
    def epochs(self) -> int: ...
    @property
    def batch_size(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class MeasuredStep:
    """The length of one round's step of the trained values, relative to their start, and the settings of that round.

    lengths: the step's norm divided by that of the initial values (at least 1), as the coordinator compares them.
    """

    lengths: float
    samples: int
    learning_rate: float
    momentum: float
    epochs: int
    batch_size: int

    def bound(self, rounds: float = 1.0) -> float:
        """Return the longest step to admit, in the same unit. rounds: how many of the measured rounds a step of the
        run's algorithm may be worth."""
        return SLACK * rounds * self.lengths

    def covers(self, sgd: TrainingPace) -> bool:
        """Whether training with these settings moves no further than the measured training."""
        milder = sgd.learning_rate <= self.learning_rate and sgd.momentum <= self.momentum
        return milder and sgd.epochs <= self.epochs and sgd.batch_size >= self.batch_size

    def __str__(self) -> str:
        return (
            f"{self.lengths:.3g} lengths of the initial model on {self.samples:,} samples (learning rate"
            f" {self.learning_rate:g}, momentum {self.momentum:g}, epochs {self.epochs}, batches of {self.batch_size})"
        )

    def note(self) -> str:
        """Return the text to store in a model file."""
        return json.dumps(asdict(self))

    @staticmethod
    def noted(notes: Mapping[str, str]) -> MeasuredStep | None:
        """Read the measurement from a model file's notes; None if there is no usable one."""
        try:
            found = MeasuredStep(**json.loads(notes[NOTE]))
            usable = math.isfinite(found.bound()) and found.bound() > 0.0
        except (KeyError, TypeError, ValueError):
            return None
        return found if usable else None
