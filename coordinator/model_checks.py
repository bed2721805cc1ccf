"""Check that the model files of a run fit its configuration; they are read completely before any member is admitted.

A weight that is not finite, that members refuse, or that the transport encoding cannot represent, would otherwise be
found only when the first order is sent, perhaps weeks after the file was created and with all members waiting. Sends
and stores nothing.
"""

from __future__ import annotations

import numpy as np

from coordinator.config import RunConfig
from coordinator.record.model_forms import ModelFile, whole_layout
from fedap_core.errors import InvalidInput
from fedap_core.parts import LARGEST_VALUE, LARGEST_VARIANCE, TensorSpec
from protocol.encodings.halves import F16_LARGEST, narrow
from protocol.errors import InvalidField
from protocol.tensors import Array


def require_usable_models(config: RunConfig) -> ModelFile:
    """Refuse an initial model or an anchor that could not be sent; return the initial model."""
    initial = ModelFile(config.initial)
    files = {"initial": initial}
    if config.anchor.file is not None:
        files["anchor.file"] = anchor = ModelFile(config.anchor.file)
        if whole_layout(anchor.spec) != whole_layout(initial.spec):
            raise InvalidInput(
                "anchor.file", anchor.path, "the tensors of the initial model", "Same model, same classes."
            )
    for field, file in files.items():
        for spec, tensor in zip(whole_layout(file.spec).specs, file.spec.tensors, strict=True):
            values = file.tensor(spec)
            _require_accepted(values, tensor, field)
            if config.encoding == "f16" and spec.dtype == "float32":
                try:
                    narrow(values)
                except InvalidField as error:
                    got = f"{file.path} with {error.got} in {spec.name}"
                    fix = "Use encoding f32, which has no such bound."
                    raise InvalidInput(field, got, f"values up to {F16_LARGEST:g} under f16", fix) from error
    return initial


def _require_accepted(values: Array, tensor: TensorSpec, field: str) -> None:
    """Refuse values so large that every member would refuse the model."""
    most = LARGEST_VARIANCE if tensor.is_variance else LARGEST_VALUE
    largest = float(np.abs(values).max(initial=0.0)) if tensor.floating else 0.0
    if largest > most:
        got = f"a value of size {largest:.3g} in {tensor.name}"
        raise InvalidInput(field, got, f"values up to {most:g}: members refuse larger ones", "Scale the data.")
