"""Reads what members reported from the coordinator's folder: the statistics behind W, shared confusion matrices.

The run may still be in progress; nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from coordinator.decisions.admission import Judgement, inspect_stats
from coordinator.record.blobs import describe, read_bytes
from coordinator.record.store import UPDATE_STATS
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.measures import measured_channels
from fedap_core.model_spec import ModelSpec
from fedap_core.strategies import Strategy
from protocol.tensors import Array, TensorSet


def stored_statistics(
    source: Path,
    spec: ModelSpec,
    strategy: Strategy,
    places: Mapping[str, tuple[str, int]],
    samples: Mapping[str, int],
) -> tuple[BnStats, ...]:
    """Return all members' statistics. places: by member, the kind of its report and the round it answered."""
    found = []
    for member, (kind, round_no) in places.items():
        measure = strategy.round_measure if kind == UPDATE_STATS else strategy.first_measure
        judged = inspect_stats(
            stored_arrays(source / "blobs" / kind / f"{round_no:07d}" / member),
            samples=samples[member],
            channels=measured_channels(spec, measure),
            covariance=strategy.measures_covariance(measure),
            min_samples=0,
        )
        if isinstance(judged, Judgement):
            raise InvalidInput(f"statistics of {member}", judged.reason, "those that were admitted")
        found.append(judged)
    return tuple(found)


def confusion_of(source: Path, member: str, round_no: int, split: str) -> list[list[int]]:
    """Return the confusion matrix that came with a member's report of that round."""
    tables = stored_arrays(source / "tables" / f"{round_no:07d}" / member)
    found: list[list[int]] = tables[f"confusion/{split}"].tolist()
    return found


def stored_arrays(path: Path) -> dict[str, Array]:
    """Return the tensors of a stored set by name."""
    stored = describe(path)
    data = read_bytes(path, 0, stored.size_bytes)
    return dict(TensorSet.staying(stored.layout, stored.encoding, data).arrays())
