"""The schema of each kind of statistics: its layers, their channels, and the names of its arrays.

Participants send by this schema, `check` lists it, and the coordinator validates and reads by it. `nn.statistics`
measures the numbers in a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.parts import Part
from fedap_core.strategies.base import Measure, Strategy

COUNT, MEAN, VARIANCE, COVARIANCE = "count", "mean", "variance", "covariance"


class ArraySpec(NamedTuple):
    """One array of a set of statistics."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def measured_channels(spec: ModelSpec, measure: Measure) -> dict[str, int]:
    """Return the measured layers, in model order, with their numbers of channels; empty for no measure."""
    if measure is Measure.NONE:
        return {}
    if measure is Measure.HEAD_INPUTS:
        return {spec.head[-1]: spec.features} if spec.features else {}
    layers: dict[str, int] = {}
    for tensor in spec.tensors:
        if tensor.part is Part.BATCH_NORM and len(tensor.shape) == 1:
            layers.setdefault(tensor.name.rpartition(".")[0], tensor.size)
    return layers


def statistics_arrays(spec: ModelSpec, strategy: Strategy, measure: Measure) -> tuple[ArraySpec, ...]:
    """Return every array of such statistics, in the order in which they are sent."""
    arrays = []
    for layer, channels in measured_channels(spec, measure).items():
        arrays += [
            ArraySpec(f"{layer}/{COUNT}", "int64", ()),
            ArraySpec(f"{layer}/{MEAN}", "float64", (channels,)),
            ArraySpec(f"{layer}/{VARIANCE}", "float64", (channels,)),
        ]
        if strategy.measures_covariance(measure):
            arrays.append(ArraySpec(f"{layer}/{COVARIANCE}", "float64", (channels, channels)))
    return tuple(arrays)


def arrays_of(stats: BnStats) -> Mapping[str, NDArray[np.generic]]:
    """Return the arrays of statistics, under the names of `statistics_arrays`."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for layer in stats.layers:
        arrays[f"{layer.name}/{COUNT}"] = np.array(layer.count, dtype=np.int64)
        arrays[f"{layer.name}/{MEAN}"] = layer.mean
        arrays[f"{layer.name}/{VARIANCE}"] = layer.variance
        if layer.covariance is not None:
            arrays[f"{layer.name}/{COVARIANCE}"] = layer.covariance
    return arrays


def stats_of(
    arrays: Mapping[str, NDArray[np.generic]], spec: ModelSpec, strategy: Strategy, measure: Measure, *, samples: int
) -> BnStats:
    """Invert `arrays_of`. InvalidInput unless the arrays are those of `statistics_arrays`, with valid moments."""
    for one in statistics_arrays(spec, strategy, measure):
        found = arrays.get(one.name)
        if found is None or (found.dtype.name, found.shape) != (one.dtype, one.shape):
            got = "nothing" if found is None else f"{found.dtype} {found.shape}"
            raise InvalidInput(one.name, got, f"{one.dtype} {one.shape}")
    layers = tuple(
        LayerMoments(
            name=layer,
            count=int(arrays[f"{layer}/{COUNT}"]),
            mean=arrays[f"{layer}/{MEAN}"].astype(np.float64),
            variance=arrays[f"{layer}/{VARIANCE}"].astype(np.float64),
            covariance=arrays[f"{layer}/{COVARIANCE}"].astype(np.float64)
            if strategy.measures_covariance(measure)
            else None,
        )
        for layer in measured_channels(spec, measure)
    )
    return BnStats(samples=samples, layers=layers)
