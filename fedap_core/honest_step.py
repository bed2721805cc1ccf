"""How far one round of honest training goes from the initial model, as measured by whoever makes that model.

A coordinator has no training library and cannot know it; the number travels in the notes of the initial model file,
with the settings it was measured under. Decides which bound on steps follows from it. Knows no files and no models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Protocol

NOTE = "training_step"
"""Its name among the notes of a model file."""

SLACK = 10.0
"""How many times as far as the measured step an update may go: other hospitals have other data, and more of them."""


class TrainingPace(Protocol):
    """What the length of a round's step depends on; a plan's own record is one."""

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
    """One round's step of the trained values, in lengths of what it started from, and the settings of that round.

    lengths: the step's norm by that of the initial values (at least 1), as the coordinator compares them.
    """

    lengths: float
    samples: int
    learning_rate: float
    momentum: float
    epochs: int
    batch_size: int

    @property
    def bound(self) -> float:
        """The longest step to admit, in the same lengths."""
        return SLACK * self.lengths

    def covers(self, sgd: TrainingPace) -> bool:
        """Whether training by these settings goes no further than by those of the measurement."""
        milder = sgd.learning_rate <= self.learning_rate and sgd.momentum <= self.momentum
        return milder and sgd.epochs <= self.epochs and sgd.batch_size >= self.batch_size

    def __str__(self) -> str:
        return (
            f"{self.lengths:.3g} lengths of the initial model on {self.samples:,} samples (learning rate"
            f" {self.learning_rate:g}, momentum {self.momentum:g}, epochs {self.epochs}, batches of {self.batch_size})"
        )

    def note(self) -> str:
        """The text that a model file carries."""
        return json.dumps(asdict(self))

    @staticmethod
    def noted(notes: Mapping[str, str]) -> MeasuredStep | None:
        """What a model file says; None where nothing usable was measured."""
        try:
            found = MeasuredStep(**json.loads(notes[NOTE]))
            usable = math.isfinite(found.bound) and found.bound > 0.0
        except (KeyError, TypeError, ValueError):
            return None
        return found if usable else None
