"""Claims about results: accuracy, macro-F1, intervals, means over clients, convergence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedap_core.arrays import FloatArray, IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation, calibration_error, convergence_round, ranking, wilson_interval


def evaluation(confusion: list[list[int]], *, loss: float = 0.5) -> Evaluation:
    table = np.array(confusion)
    return Evaluation(samples=int(table.sum()), correct=int(table.trace()), loss=loss, confusion=table)


def test_accuracy_is_the_share_of_the_diagonal() -> None:
    assert evaluation([[3, 1], [2, 4]]).accuracy == 0.7


def test_macro_f1_averages_the_classes_that_occur() -> None:
    """Rows (3, 1, 0), (2, 4, 0), class 2 absent: F1 = 2*3 / (4 + 5) = 2/3 and 2*4 / (6 + 5) = 8/11; mean 23/33."""
    assert evaluation([[3, 1, 0], [2, 4, 0], [0, 0, 0]]).macro_f1 == pytest.approx(23 / 33, rel=1e-15)


def test_class_that_is_only_predicted_counts_as_zero_in_macro_f1() -> None:
    """Class 0: 2*3 / (4 + 3) = 6/7; class 1 never true, predicted once: 0; mean 3/7."""
    assert evaluation([[3, 1], [0, 0]]).macro_f1 == pytest.approx(3 / 7, rel=1e-15)


def test_predictions_are_counted_with_rows_as_truth() -> None:
    found = Evaluation.of(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]), classes=3, loss=1.5)
    assert found.confusion.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert (found.samples, found.correct, found.loss) == (4, 2, 1.5)


def test_diverged_model_is_a_result() -> None:
    assert math.isnan(evaluation([[1, 1], [0, 0]], loss=math.nan).loss)


def test_confusion_is_a_private_copy_that_nobody_can_change() -> None:
    table = np.array([[1, 0], [0, 1]])
    found = Evaluation(samples=2, correct=2, loss=0.0, confusion=table)
    table[0, 0] = 9
    assert found.confusion[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        found.confusion[0, 0] = 9


@pytest.mark.parametrize(
    ("samples", "correct", "confusion", "message"),
    [
        (3, 2, [[1, 0], [0, 1]], "samples: got 3"),
        (0, 0, [[0, 0], [0, 0]], "samples: got 0"),
        (2, 1, [[1, 0], [0, 1]], "correct: got 1"),
        (2, 2, [[1, 1]], "confusion"),
        (2, 2, [1, 1], "confusion"),
        (2, 2, [[3, 0], [0, -1]], "confusion"),
    ],
)
def test_counts_that_contradict_each_other_are_refused(
    samples: int, correct: int, confusion: list[list[int]], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        Evaluation(samples=samples, correct=correct, loss=0.0, confusion=np.array(confusion))


@pytest.mark.parametrize(
    ("truth", "predicted", "field"),
    [([0, 2], [0, 1], "truth"), ([0, 1], [0, -1], "predicted"), ([0, 1], [0], "predicted"), ([[0]], [0], "truth")],
)
def test_class_numbers_out_of_range_are_refused(truth: list[int], predicted: list[int], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        Evaluation.of(np.array(truth), np.array(predicted), classes=2, loss=0.0)


def test_wilson_interval_of_eight_in_ten() -> None:
    """z = 1.95996, z^2 = 3.84146: centre (0.8 + 0.192073) / 1.384146 = 0.716740,
    half 1.95996 * sqrt(0.016 + 0.00960365) / 1.384146 = 0.226577.
    """
    low, high = wilson_interval(8, 10)
    assert [low, high] == pytest.approx([0.490163, 0.943317], abs=1e-6)


def test_wilson_interval_stays_within_zero_and_one() -> None:
    """None correct of n: the upper end is z^2 / (n + z^2); all correct mirrors it."""
    low, high = wilson_interval(0, 5)
    assert low == 0.0
    assert high == pytest.approx(3.841459 / 8.841459, abs=1e-6)
    assert wilson_interval(5, 5)[0] == pytest.approx(1 - high)
    assert wilson_interval(5, 5)[1] == 1.0


def test_wilson_interval_widens_with_confidence() -> None:
    narrow, wide = wilson_interval(7, 20, 0.5), wilson_interval(7, 20, 0.99)
    assert wide[0] < narrow[0] < 7 / 20 < narrow[1] < wide[1]


@pytest.mark.parametrize(("correct", "samples", "confidence"), [(1, 0, 0.9), (3, 2, 0.9), (-1, 2, 0.9), (1, 2, 1.0)])
def test_wrong_interval_requests_are_refused(correct: int, samples: int, confidence: float) -> None:
    with pytest.raises(InvalidInput):
        wilson_interval(correct, samples, confidence)


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([0.1, 0.5, 0.8, 0.8], 2),
        ([0.1, 0.96, 0.5, 0.95, 1.0], 3),
        ([0.9, 0.9, 0.9], 0),
        ([0.7], 0),
        ([0.1, math.nan, 1.0], 2),
        ([0.0, 0.0], 0),
        ([], None),
        ([0.5, math.nan], None),
    ],
)
def test_convergence_is_the_round_from_which_the_curve_stays_up(curve: list[float], expected: int | None) -> None:
    """The threshold is 95 % of the last value; an early peak that falls again does not count."""
    assert convergence_round(curve) == expected


def test_convergence_share_outside_zero_to_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match="share"):
        convergence_round([0.5], share=1.5)


def _probabilities(samples: int, classes: int, *, seed: int) -> tuple[IndexArray, FloatArray]:
    """Labels and probabilities that know a little about them; some are equal, as those of a confident model are."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, samples)
    scores = np.round(np.exp(rng.normal(size=(samples, classes)) + np.eye(classes)[truth]), 1) + 0.1
    return truth, np.asarray(scores / scores.sum(axis=1, keepdims=True), dtype=np.float64)


@pytest.mark.parametrize(("samples", "classes", "seed"), [(200, 2, 0), (300, 5, 1), (40, 11, 2)])
def test_auroc_and_sensitivity_are_those_of_scikit_learn(samples: int, classes: int, seed: int) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    truth, probabilities = _probabilities(samples, classes, seed=seed)
    areas, sensitivities = [], []
    for label in np.unique(truth):
        positive, score = truth == label, probabilities[:, label]
        areas.append(sklearn.roc_auc_score(positive, score))
        false, true, _ = sklearn.roc_curve(positive, score, drop_intermediate=False)
        sensitivities.append(true[false <= 0.05].max())
    expected = (np.mean(areas), np.mean(sensitivities))
    assert ranking(truth, probabilities) == pytest.approx(expected, abs=1e-12)


def test_one_false_alarm_in_twenty_is_allowed() -> None:
    """Class 1: one of 20 negatives scores above both positives: specificity 19/20, so both are found: 1. Class 0: both
    positives of class 1 score above one of its 20: at no false alarm 19/20 are found."""
    truth = np.array([0] * 20 + [1, 1])
    score = np.array([0.9] + [0.1] * 19 + [0.8, 0.7])
    found = ranking(truth, np.stack([1 - score, score], axis=1))
    assert found[1] == pytest.approx((1.0 + 19 / 20) / 2)


def test_classes_that_a_client_does_not_have_do_not_count() -> None:
    truth = np.array([0, 0, 2, 2])
    probabilities = np.array([[0.6, 0.3, 0.1], [0.5, 0.5, 0.0], [0.1, 0.1, 0.8], [0.2, 0.5, 0.3]])
    assert ranking(truth, probabilities) == (1.0, 1.0)


def test_ranking_of_one_class_is_undefined_and_calibration_is_not() -> None:
    """Both right, with confidences 0.9 and 0.8 in bins 13 and 12: gaps 0.1 and 0.2, mean 0.15."""
    found = Evaluation.of(
        np.array([1, 1]),
        np.array([1, 1]),
        classes=2,
        loss=0.1,
        probabilities=np.array([[0.1, 0.9], [0.2, 0.8]]),
    )
    assert (found.auroc, found.sensitivity) == (None, None)
    assert found.calibration_error == pytest.approx(0.15)


def test_calibration_error_weighs_the_gap_of_every_bin() -> None:
    """Bin 9 (0.6 to 0.667): 0.62 twice, one right: |1 - 1.24| = 0.24; bin 14: 1.0 once, wrong: 1. (0.24 + 1) / 3."""
    confidence = np.array([0.62, 0.62, 1.0])
    assert calibration_error(np.array([True, False, False]), confidence) == pytest.approx(1.24 / 3)


def test_probabilities_of_a_diverged_model_have_no_scores() -> None:
    nan = np.full((2, 2), np.nan)
    found = Evaluation.of(np.array([0, 1]), np.array([0, 0]), classes=2, loss=math.nan, probabilities=nan)
    assert (found.auroc, found.sensitivity, found.calibration_error) == (None, None, None)
    assert found.balanced_accuracy == 0.5
