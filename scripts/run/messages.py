"""Messages between worker processes and their parents, as JSON: statistics, reports, evaluations, errors.

JSON keeps every bit of a float (its shortest text reads back as the same number) and cannot run code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation

if TYPE_CHECKING:  # it imports torch, and errors are passed on before torch is needed
    from participant.training.local import LocalReport

Json = dict[str, Any]


def stats_to_json(stats: BnStats) -> Json:
    """Convert moments into lists of numbers."""
    layers = [
        {
            "name": layer.name,
            "count": layer.count,
            "mean": layer.mean.tolist(),
            "variance": layer.variance.tolist(),
            "covariance": None if layer.covariance is None else layer.covariance.tolist(),
        }
        for layer in stats.layers
    ]
    return {"samples": stats.samples, "layers": layers}


def stats_from_json(text: Json) -> BnStats:
    """The inverse of `stats_to_json`."""
    layers = tuple(
        LayerMoments(
            name=layer["name"],
            count=layer["count"],
            mean=np.array(layer["mean"], dtype=np.float64),
            variance=np.array(layer["variance"], dtype=np.float64),
            covariance=None if layer["covariance"] is None else np.array(layer["covariance"], dtype=np.float64),
        )
        for layer in text["layers"]
    )
    return BnStats(samples=text["samples"], layers=layers)


def report_to_json(report: LocalReport) -> Json:
    """Convert metrics, and statistics if they were requested."""
    metrics = report.metrics
    return {
        "metrics": {"samples": metrics.samples, "steps": metrics.steps, "loss": metrics.loss},
        "stats": None if report.stats is None else stats_to_json(report.stats),
    }


def report_from_json(text: Json) -> LocalReport:
    """The inverse of `report_to_json`."""
    from fedap_core.nn.training import TrainingMetrics
    from participant.training.local import LocalReport

    stats = None if text["stats"] is None else stats_from_json(text["stats"])
    return LocalReport(metrics=TrainingMetrics(**text["metrics"]), stats=stats)


def evaluation_to_json(evaluation: Evaluation) -> Json:
    """Convert counts, loss, the confusion matrix and the qualities computed from probabilities."""
    return {**vars(evaluation), "confusion": evaluation.confusion.tolist()}


def evaluation_from_json(text: Json) -> Evaluation:
    """The inverse of `evaluation_to_json`."""
    return Evaluation(**{**text, "confusion": np.array(text["confusion"], dtype=np.int64)})


def error_to_json(error: Exception) -> Json:
    """Convert an error part by part, so that the parent can show it complete and in one line."""
    if isinstance(error, InvalidInput):
        got = error.got if isinstance(error.got, str) else repr(error.got)
        return {"field": error.field, "got": got, "expected": error.expected, "fix": error.fix}
    return {
        "field": "outcome",
        "got": type(error).__name__,
        "expected": "results",
        "fix": " ".join(str(error).split()),
    }


def error_from_json(text: Json, *, where: str = "") -> InvalidInput:
    """The inverse of `error_to_json`; `where` says where the error occurred."""
    return InvalidInput(f"{where}{text['field']}", text["got"], text["expected"], text["fix"])
