"""What counts as a result: accuracy, macro-F1, their uncertainty, the mean over clients and the round of convergence.

Decides definitions only; which round and which split are reported is decided by the protocol of the experiment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """One model on one set of samples.

    loss: mean over the samples; NaN and Inf are legal, a diverged model is a result too. confusion: (C, C) counts, rows
    are the truth, columns the prediction; a private read-only copy.
    """

    samples: int
    correct: int
    loss: float
    confusion: IndexArray

    def __post_init__(self) -> None:
        confusion = np.array(self.confusion, dtype=np.int64)
        if confusion.ndim != 2 or confusion.shape[0] != confusion.shape[1] or (confusion < 0).any():
            raise InvalidInput("evaluation.confusion", f"shape {confusion.shape}", "(classes, classes) counts >= 0")
        if self.samples <= 0 or confusion.sum() != self.samples:
            expected = f"the sum of the confusion matrix, {confusion.sum()}, and at least one"
            raise InvalidInput("evaluation.samples", self.samples, expected)
        if confusion.trace() != self.correct:
            raise InvalidInput("evaluation.correct", self.correct, f"the matrix' diagonal sum {confusion.trace()}")
        confusion.setflags(write=False)
        object.__setattr__(self, "confusion", confusion)

    @classmethod
    def of(cls, truth: IndexArray, predicted: IndexArray, *, classes: int, loss: float) -> Evaluation:
        """Count predictions against the truth, both (n,) with values in 0..classes-1."""
        for field, values in (("truth", truth), ("predicted", predicted)):
            if values.shape != (truth.size,) or (values < 0).any() or (values >= classes).any():
                expected = f"({truth.size},) class numbers in 0..{classes - 1}"
                raise InvalidInput(f"evaluation.{field}", f"shape {values.shape}: {values}", expected)
        confusion = np.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes)
        return cls(samples=truth.size, correct=int(confusion.trace()), loss=loss, confusion=confusion)

    @property
    def accuracy(self) -> float:
        return self.correct / self.samples

    @property
    def macro_f1(self) -> float:
        """Mean F1 = 2 TP / (true + predicted) over the classes that occur in the truth or among the predictions."""
        occurrences = self.confusion.sum(axis=0) + self.confusion.sum(axis=1)
        present = occurrences > 0
        return float(np.mean(2.0 * self.confusion.diagonal()[present] / occurrences[present]))


def wilson_interval(correct: int, samples: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of Wilson (1927) around correct / samples: stays within [0, 1], honest for small samples."""
    if samples <= 0 or not 0 <= correct <= samples:
        raise InvalidInput("correct of samples", f"{correct} of {samples}", "0 <= correct <= samples, samples >= 1")
    if not 0.0 < confidence < 1.0:
        raise InvalidInput("confidence", confidence, "a number between 0 and 1")
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    share = correct / samples
    shrink = 1.0 + z * z / samples
    centre = (share + z * z / (2 * samples)) / shrink
    half = z * math.sqrt(share * (1.0 - share) / samples + z * z / (4 * samples * samples)) / shrink
    # At the ends the two terms are equal; rounding must not show an impossible bound.
    return 0.0 if correct == 0 else centre - half, 1.0 if correct == samples else centre + half


def convergence_round(curve: Sequence[float], share: float = 0.95) -> int | None:
    """The first index from which the curve stays at or above `share` of its final value; None without a final value."""
    if not 0.0 <= share <= 1.0:
        raise InvalidInput("share", share, "a number from 0 to 1")
    if not curve or not math.isfinite(curve[-1]):
        return None
    threshold = share * curve[-1]
    below = [number for number, value in enumerate(curve) if not value >= threshold]  # NaN is below
    return below[-1] + 1 if below else 0
