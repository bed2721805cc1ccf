"""Determines what a participant sends and receives until its federation has converged: measured on the wire, or
computed.

Computed from the model's layout, the strategy's local parts and the encoding: the shared values in each direction and
round, and the one-time cost of W: the anchor (all tensors, four bytes a value) down, mean and variance of every
measured channel up, eight bytes each. Where rows are differences, the first model, which is none, costs more once.
The layout is that of a model file beside the run, or of a newly made model if a sample's shape is known without the
data. Code that a folder names is not run: users' own algorithms get no figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pydantic import ValidationError

from fedap_core.errors import InvalidInput
from fedap_core.measures import measured_channels
from fedap_core.model_spec import ModelSpec
from fedap_core.strategies import Measure, Strategy
from protocol.encodings import Encoding, downward
from protocol.tensors import Layout, row_encoding
from scripts.run.records import ParticipantBytes, RoundRecord
from scripts.run.run_folder import RunFolder
from scripts.run.settings import CohortSettings, RunSettings, saved_settings

_FLOAT32, _FLOAT64 = 4, 8

Shape = tuple[int, ...]

_SHAPES: Mapping[str, Shape] = {"har": (9, 128), "chest": (1, 64, 64), "watch": (6, 200)}
"""Data sets whose samples all have the same shape, which would otherwise be known only from their files."""


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


def computed_bytes(settings: Mapping[str, Any], classes: tuple[str, ...], folder: Path) -> ParticipantBytes | None:
    """Return what a participant of this run would send and receive; None if that cannot be determined."""
    try:
        if any(":" in str(settings.get(name, "")) for name in ("algorithm", "model")):
            return None
        run = saved_settings(settings)
        spec = _spec(run, classes, folder)
        if spec is None or run.mode != "barrier":
            return None
        pooled = run.anchor.kind != "warmup"
        return computed(spec, run.strategy(), encoding=run.encoding, pooled_anchor=pooled)
    except (InvalidInput, ValidationError):  # an algorithm or a model of another version
        return None


def _spec(run: RunSettings, classes: tuple[str, ...], folder: Path) -> ModelSpec | None:
    path = next(_left_behind(run, folder), None)
    if path is not None:
        from participant.record.model_file import read_spec

        return read_spec(path)
    shape = sample_shape(run.cohort)
    return None if shape is None else _made(run.model, shape, classes)


def _left_behind(run: RunSettings, folder: Path) -> Iterator[Path]:
    """Yield the model files of this run: its initial model, then those that it delivered."""
    initial = folder.parent / "initial" / f"{run.initial_identity}.safetensors"
    if initial.is_file():
        yield initial
    yield from sorted((folder / "models").glob("*/*.safetensors"))


def sample_shape(cohort: CohortSettings) -> Shape | None:
    """Return the shape of one sample if it is known without reading the data."""
    from participant.data.medmnist_sets import FLAGS, lookup

    if cohort.data in FLAGS and cohort.data_options.get("size", "28") == "28":
        return (lookup(cohort.data, 28).channels, 28, 28)
    return None if cohort.data_options else _SHAPES.get(cohort.data)


@cache
def _made(model: str, shape: Shape, classes: tuple[str, ...]) -> ModelSpec:
    from fedap_core.preprocessing import IMAGE_8BIT
    from participant.record.model_file import make_initial

    spec, _ = make_initial(model, input_shape=shape, classes=classes, preprocessing=IMAGE_8BIT, seed=0)
    return spec
