"""Claims about what processes tell each other: it arrives to the bit, and complaints arrive whole."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation
from fedap_core.nn.training import TrainingMetrics
from participant.training.local import LocalReport
from scripts.run.forked import run_in_child
from scripts.run.messages import (
    Json,
    error_from_json,
    error_to_json,
    evaluation_from_json,
    evaluation_to_json,
    report_from_json,
    report_to_json,
    stats_from_json,
    stats_to_json,
)


def sent(message: Json) -> Json:
    """Through a pipe as text."""
    received: Json = json.loads(json.dumps(message).encode())
    return received


def random_stats(*, covariance: bool) -> BnStats:
    rng = np.random.default_rng(0)
    layers = [LayerMoments.of(name, rng.standard_normal((3, 7)) / 3, with_covariance=covariance) for name in "ab"]
    return BnStats(samples=7, layers=tuple(layers))


@pytest.mark.parametrize("covariance", [False, True])
def test_statistics_arrive_to_the_bit(covariance: bool) -> None:
    stats = random_stats(covariance=covariance)
    found = stats_from_json(sent(stats_to_json(stats)))
    assert (found.samples, found.layer_names) == (7, ("a", "b"))
    for mine, theirs in zip(stats.layers, found.layers, strict=True):
        assert mine.count == theirs.count
        assert mine.mean.tobytes() == theirs.mean.tobytes()
        assert mine.variance.tobytes() == theirs.variance.tobytes()
        assert (mine.covariance is None) == (theirs.covariance is None) == (not covariance)
        if mine.covariance is not None and theirs.covariance is not None:
            assert mine.covariance.tobytes() == theirs.covariance.tobytes()


@pytest.mark.parametrize("loss", [1 / 3, math.inf])
def test_report_arrives_with_and_without_statistics(loss: float) -> None:
    metrics = TrainingMetrics(samples=7, steps=2, loss=loss)
    plain = report_from_json(sent(report_to_json(LocalReport(metrics=metrics))))
    assert plain == LocalReport(metrics=metrics)
    full = report_from_json(sent(report_to_json(LocalReport(metrics=metrics, stats=random_stats(covariance=False)))))
    assert full.stats is not None
    assert full.stats.layer_names == ("a", "b")


def test_evaluation_arrives_with_its_matrix() -> None:
    evaluation = Evaluation(
        samples=4, correct=3, loss=1 / 7, confusion=np.array([[2, 1], [0, 1]]), auroc=1 / 3, calibration_error=0.1
    )
    found = evaluation_from_json(sent(evaluation_to_json(evaluation)))
    assert (found.samples, found.correct, found.loss) == (4, 3, 1 / 7)
    assert found.confusion.tolist() == [[2, 1], [0, 1]]
    assert (found.auroc, found.sensitivity, found.calibration_error) == (1 / 3, None, 0.1)


def test_complaint_arrives_in_its_parts() -> None:
    error = InvalidInput("update of c1", ["no", 1], "finite weights", "Training diverged: lower the learning rate.")
    assert str(error_from_json(sent(error_to_json(error)))) == str(error)
    assert str(error_from_json(sent(error_to_json(error)), where="run x: ")) == f"run x: {error}"


def test_complaint_of_the_system_becomes_one_line_that_is_not_cut() -> None:
    error = OSError(28, "No space left on device\n" + "and more " * 40 + "END")
    found = str(error_from_json(sent(error_to_json(error)), where="run x: "))
    assert found.startswith("run x: ")
    assert "No space left on device and more" in found
    assert "END" in found
    assert "\n" not in found


def test_refusal_inside_a_child_process_is_raised_in_the_parent() -> None:
    def refuse() -> None:
        raise InvalidInput("anchor", "x" * 30, "y" * 100, "Do z.")

    with pytest.raises(InvalidInput, match=r"anchor: got x{30}, expected y{100}\. Do z\."):
        run_in_child(refuse)


def test_child_process_that_dies_is_reported_with_its_code() -> None:
    def die() -> None:
        raise SystemExit(7)

    with pytest.raises(RuntimeError, match="code 7"):
        run_in_child(die)
