"""Determines what a participant sends and receives until its federation has converged: measured on the wire, or
computed.

Computed from the model's layout, the strategy's local parts and the encoding: the shared values in each direction and
round, and the one-time cost of W: the anchor (all tensors, four bytes a value) down, mean and variance of every
measured channel up, eight bytes each. Where rows are differences, the first model, which is none, costs more once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from fedap_core.measures import measured_channels
from fedap_core.model_spec import ModelSpec
from fedap_core.strategies import Measure, Strategy
from protocol.encodings import Encoding, downward
from protocol.tensors import Layout, row_encoding
from scripts.run.records import ParticipantBytes, RoundRecord
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings

_FLOAT32, _FLOAT64 = 4, 8


def computed(
    spec: ModelSpec, strategy: Strategy, *, encoding: Encoding = "f32", pooled_anchor: bool = True
) -> ParticipantBytes:
    """Compute the bytes from the layout alone; headers and framing, some hundred bytes per message, are left out."""
    shared = Layout.described(strategy.travelling(spec))
    measures = strategy.first_measure
    once = 0
    if measures is not Measure.NONE and pooled_anchor:
        whole = sum(tensor.size for tensor in spec.tensors if tensor.floating)
        once = whole * _FLOAT32 + 2 * _FLOAT64 * sum(measured_channels(spec, measures).values())
    elif strategy.round_measure is not Measure.NONE:  # measured once, with an update
        once = 2 * _FLOAT64 * sum(measured_channels(spec, strategy.round_measure).values())
    up, down = shared.size_bytes(encoding), shared.size_bytes(row_encoding(shared, encoding))
    once += shared.size_bytes(downward(encoding)) - down
    return ParticipantBytes(up=float(up), down=float(down), once=float(once))


def compressed_share(records: Sequence[RoundRecord]) -> float:
    """Return the share of the updates' bytes that compression left, mean over rounds; 1 if they were not compressed."""
    known = [record.compressed for record in records if record.compressed is not None]
    return fmean(known) if known else 1.0


def counted(folders: Sequence[RunFolder]) -> ParticipantBytes | None:
    """Return the bytes recorded in the folders' rounds, mean over clients and seeds; None if there are none.

    A round counts as the median one; what the first round had beyond that (models delivered, statistics) is `once`.
    """
    ups, downs, first = [], [], []
    for folder in folders:
        recorded = [record for record in folder.records() if record.up or record.down]
        if recorded:
            up, down = ([fmean(getattr(record, way)) for record in recorded] for way in ("up", "down"))
            ups.append(median(up))
            downs.append(median(down))
            first.append(max(0.0, up[0] + down[0] - ups[-1] - downs[-1]))
    return ParticipantBytes(up=fmean(ups), down=fmean(downs), once=fmean(first), measured=True) if ups else None


def spec_of(run: RunSettings, root: Path) -> ModelSpec:
    """Return the layout of the run's model from its initial model file, which is made in a child process if missing."""
    from participant.record.model_file import read_spec  # torch takes seconds to import
    from scripts.engines.base import EngineOptions
    from scripts.engines.inline import initial_file
    from scripts.run.cohort import make_cohort

    path = root / "initial" / f"{run.initial_identity}.safetensors"
    if not path.exists():
        path = initial_file(run, make_cohort(run.cohort, run.seed), EngineOptions(root=root, workers=2))
    return read_spec(path)
