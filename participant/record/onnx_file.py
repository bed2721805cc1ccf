"""Write the model as an .onnx file: stored values in, probabilities out, described by its own metadata."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch

from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from participant.record.deployment import Deployed, exported

INPUT, OUTPUT = "input", "probabilities"


def write_onnx(path: Path, spec: ModelSpec, state: State, notes: Mapping[str, str]) -> None:
    """Write the file; its input: float32 (n, *input_shape), values as the data source stores them."""
    import onnx
    import onnxscript  # noqa: F401 - needed by torch's exporter; imported here to report a missing extra first

    program = exported(Deployed(spec, state), spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter warns about itself
        made = torch.onnx.export(
            program, input_names=[INPUT], output_names=[OUTPUT], external_data=False, dynamo=True, verbose=False
        )
    if made is None:
        raise TypeError("torch.onnx.export gave no program")
    proto: onnx.ModelProto = made.model_proto
    described = {
        "classes": json.dumps(spec.classes),
        "input_shape": json.dumps(spec.input_shape),
        "preprocessing": str(spec.preprocessing),
        "recipe": json.dumps(dict(spec.preprocessing.recipe)),
        "notes": json.dumps(dict(notes)),
    }
    onnx.helper.set_model_props(proto, described)
    onnx.checker.check_model(proto)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(proto.SerializeToString())
