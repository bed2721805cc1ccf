"""Computes the bytes of runs inside one process, which cannot be counted, from the model's layout.

The layout is that of a model file beside the run, or of a newly made model if a sample's shape is known without the
data. Without either there is no figure. Code that a folder names is not run: users' own algorithms get no figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fedap_core.errors import InvalidInput
from scripts.report.traffic import computed
from scripts.run.records import ParticipantBytes
from scripts.run.settings import CohortSettings, RunSettings, saved_settings

if TYPE_CHECKING:
    from fedap_core.model_spec import ModelSpec

Shape = tuple[int, ...]

_SHAPES: Mapping[str, Shape] = {"har": (9, 128), "chest": (1, 64, 64)}
"""Data sets whose samples all have the same shape, which would otherwise be known only from their files."""


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
