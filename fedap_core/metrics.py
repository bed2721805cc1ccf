"""Define the results: accuracy and its uncertainty, what accuracy hides (balanced accuracy, macro-F1, AUROC,
sensitivity, calibration), and the round of convergence.

Contains definitions only; the protocol of the experiment decides which round and split are reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from fedap_core.arrays import BoolArray, FloatArray, IndexArray
from fedap_core.errors import InvalidInput

QUALITIES = ("balanced_accuracy", "macro_f1", "auroc", "sensitivity", "calibration_error")
"""Scores of a model besides accuracy, each from 0 to 1; for the last, lower is better."""

SPECIFICITY = 0.95
"""Sensitivity is reported at this specificity: at most one in twenty samples without a class is assigned to it."""

CALIBRATION_BINS = 15
"""Bins of equal width, as in Guo et al. 2017, which most published figures follow."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """One model on one set of samples.

    loss: mean over the samples; NaN and Inf are legal, a diverged model is a result too. confusion: (C, C) counts, rows
    are the truth, columns the prediction; a private read-only copy. auroc, sensitivity, calibration_error: from the
    probabilities; None if undefined (samples of only one class; probabilities that are not finite).
    """

    samples: int
    correct: int
    loss: float
    confusion: IndexArray
    auroc: float | None = None
    sensitivity: float | None = None
    calibration_error: float | None = None

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
    def of(
        cls,
        truth: IndexArray,
        predicted: IndexArray,
        *,
        classes: int,
        loss: float,
        probabilities: FloatArray | None = None,
    ) -> Evaluation:
        """Count predictions against the truth, both (n,) with values in 0..classes-1. probabilities: (n, classes)."""
        for field, values in (("truth", truth), ("predicted", predicted)):
            if values.shape != (truth.size,) or (values < 0).any() or (values >= classes).any():
                expected = f"({truth.size},) class numbers in 0..{classes - 1}"
                raise InvalidInput(f"evaluation.{field}", f"shape {values.shape}: {values}", expected)
        confusion = np.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes)
        found = cls(samples=truth.size, correct=int(confusion.trace()), loss=loss, confusion=confusion)
        if probabilities is None or not np.isfinite(probabilities).all():
            return found
        auroc, sensitivity = ranking(truth, probabilities)
        calibration = calibration_error(predicted == truth, probabilities.max(axis=1))
        return replace(found, auroc=auroc, sensitivity=sensitivity, calibration_error=calibration)

    @property
    def accuracy(self) -> float:
        return self.correct / self.samples

    @property
    def macro_f1(self) -> float:
        """Mean F1 = 2 TP / (true + predicted) over the classes that occur in the truth or among the predictions."""
        occurrences = self.confusion.sum(axis=0) + self.confusion.sum(axis=1)
        present = occurrences > 0
        return float(np.mean(2.0 * self.confusion.diagonal()[present] / occurrences[present]))

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall over the classes that occur; always guessing the majority class does not raise it."""
        return balanced_accuracy(self.confusion)


def balanced_accuracy(confusion: IndexArray) -> float:
    """Mean recall over the classes that occur in the truth, the rows of (C, C) counts."""
    occurring = confusion.sum(axis=1)
    present = occurring > 0
    return float(np.mean(confusion.diagonal()[present] / occurring[present]))


def ranking(truth: IndexArray, probabilities: FloatArray) -> tuple[float | None, float | None]:
    """Return (AUROC, sensitivity at 95 % specificity), each class against the rest, averaged over the classes.

    Only classes that some but not all samples have count; None without any. Equal probabilities are one step of the
    curve, so neither depends on the order of the samples.
    """
    present = [label for label in np.unique(truth) if (truth != label).any()]
    if not present:
        return None, None
    scores = [roc_scores(truth == label, probabilities[:, label], false_alarms=1.0 - SPECIFICITY) for label in present]
    area, sensitivity = np.mean(scores, axis=0)
    return float(area), float(sensitivity)


def roc_scores(positive: BoolArray, score: FloatArray, *, false_alarms: float) -> tuple[float, float]:
    """Return the area under the ROC curve, and the highest true-positive rate at a false-positive rate of at most
    `false_alarms`. positive, score: (n,), with at least one positive and one negative; ties count half."""
    if not 0 < np.count_nonzero(positive) < positive.size:
        raise InvalidInput("positive", f"{np.count_nonzero(positive)} of {positive.size}", "at least one of each kind")
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(positive[order])
    ends = np.append(np.flatnonzero(np.diff(score[order])), score.size - 1)
    true_rate = np.concatenate(([0.0], hits[ends] / hits[-1]))
    false_rate = np.concatenate(([0.0], (ends + 1 - hits[ends]) / (score.size - hits[-1])))
    allowed = true_rate[false_rate <= false_alarms + 1e-12]  # allow 1 of 20: 1 - 0.95 is slightly less
    return float(np.trapezoid(true_rate, false_rate)), float(allowed[-1])


def calibration_error(correct: BoolArray, confidence: FloatArray) -> float:
    """Expected calibration error: |share of correct - mean confidence| in bins of confidence, weighted by their size.

    correct: (n,) whether the prediction was right; confidence: (n,) probability of the predicted class.
    """
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, weights=correct - confidence, minlength=CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / confidence.size)


def wilson_interval(correct: int, samples: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of Wilson (1927) around correct / samples: stays within [0, 1], accurate for small samples."""
    if samples <= 0 or not 0 <= correct <= samples:
        raise InvalidInput("correct of samples", f"{correct} of {samples}", "0 <= correct <= samples, samples >= 1")
    if not 0.0 < confidence < 1.0:
        raise InvalidInput("confidence", confidence, "a number between 0 and 1")
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    share = correct / samples
    shrink = 1.0 + z * z / samples
    centre = (share + z * z / (2 * samples)) / shrink
    half = z * math.sqrt(share * (1.0 - share) / samples + z * z / (4 * samples * samples)) / shrink
    # at the ends the two terms are equal; rounding must not give an impossible bound
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
