"""What a participant has, as it travels, and back: layouts, weights, statistics, scores, tables.

Only shapes and conversions; which of it is ever sent is decided by the strategy and the participant's own settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch

from fedap_core.arrays import Float32Array, IndexArray
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from protocol.encodings import ENCODINGS, Encoding
from protocol.messages import Score
from protocol.tensors import Array, Layout, TensorSet


def encoding_of(name: str) -> Encoding:
    """The transport encoding of that name."""
    for known in ENCODINGS:
        if name == known:
            return known
    raise InvalidInput("plan.encoding", name, f"one of {', '.join(ENCODINGS)}")


def weights_of(tensors: TensorSet, layout: Layout, what: str) -> Float32Array:
    """The flat values (elements,) of a set that must have this layout."""
    if tensors.layout != layout:
        got, expected = _named(tensors.layout), _named(layout)
        raise InvalidInput(f"tensors of {what}", got, f"the plan's tensors: {expected}")
    return tensors.flat()


def model_of(tensors: TensorSet, spec: ModelSpec, what: str, *, fill: State | None = None) -> State:
    """All tensors of a model out of a set; counters that the set leaves out are taken from `fill`."""
    arrays = tensors.arrays()
    state: State = {}
    for tensor in spec.tensors:
        found = arrays.get(tensor.name)
        if found is None and fill is not None and not tensor.floating:
            state[tensor.name] = fill[tensor.name].clone()
        elif found is None or found.shape != tensor.shape:
            raise InvalidInput(what, f"tensor {tensor.name} missing or misshapen", f"shape {tensor.shape}")
        else:
            state[tensor.name] = torch.from_numpy(np.array(found))
    unknown = arrays.keys() - state.keys()
    if unknown:
        raise InvalidInput(what, f"tensor {min(unknown)}", "tensors of this model only")
    return state


def moments_of(stats: BnStats) -> dict[str, Array]:
    """Statistics by name: count, mean and variance of every layer, covariance where it was measured."""
    arrays: dict[str, Array] = {}
    for layer in stats.layers:
        arrays[f"{layer.name}/count"] = np.array(layer.count, dtype=np.int64)
        arrays[f"{layer.name}/mean"] = layer.mean
        arrays[f"{layer.name}/variance"] = layer.variance
        if layer.covariance is not None:
            arrays[f"{layer.name}/covariance"] = layer.covariance
    return arrays


def score_of(split: str, evaluation: Evaluation, *, model: str = "delivered") -> Score:
    """How good a model was, without the confusion matrix."""
    return Score(
        model=model,
        split=split,
        samples=evaluation.samples,
        correct=evaluation.correct,
        loss=evaluation.loss if math.isfinite(evaluation.loss) else None,
        macro_f1=evaluation.macro_f1,
    )


def tables_of(class_counts: IndexArray, evaluations: Mapping[str, Evaluation]) -> dict[str, Array]:
    """Class counts of the training data and a confusion matrix per split: for those who agreed to share them."""
    confusions = {f"confusion/{split}": np.array(one.confusion) for split, one in evaluations.items()}
    return {"class_counts": class_counts, **confusions}


def _named(layout: Layout) -> str:
    return ", ".join(spec.line for spec in layout.specs) or "none"
