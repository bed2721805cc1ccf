"""Write the model as a MONAI bundle: a folder with the network, its preprocessing and postprocessing as a chain of
transforms, and metadata.

Image files are read by MONAI's own transforms; DICOM and NIfTI by `ReadSample`, because this project has its own rules
for the window and polarity in each file's header. Writes MONAI's configuration language without importing MONAI.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from participant.data import load_new
from participant.data.base import DataOptions
from participant.record.deployment import exported, network_of

NETWORK = "models/model.pt2"
METADATA, INFERENCE = "configs/metadata.json", "configs/inference.json"
_MONAI = "1.4.0"
"""The oldest version whose transforms the chain uses."""


class ReadSample:
    """A transform from a file path to (C, ...) float32 stored values, by the recipe of the model's training data."""

    def __init__(self, recipe: Mapping[str, str]) -> None:
        self._options = DataOptions(recipe=dict(recipe))

    def __call__(self, path: str) -> Tensor:
        found = load_new(str(path), self._options)
        if len(found.x) != 1:
            raise InvalidInput(str(path), f"{len(found.x)} samples", "one sample per file")
        return torch.from_numpy(found.x[0]).to(torch.float32)


def is_bundle(path: Path) -> bool:
    """Whether a folder is a bundle, which may be replaced."""
    return (path / METADATA).is_file()


def write_monai(path: Path, spec: ModelSpec, state: State, notes: Mapping[str, str]) -> None:
    """Write the bundle to a new folder."""
    program = exported(network_of(spec, state), spec)
    for name in (NETWORK, METADATA, INFERENCE):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
    saved = io.BytesIO()  # torch reports a full disk as an error of its own
    torch.export.save(program, saved)
    (path / NETWORK).write_bytes(saved.getbuffer())
    for name, content in ((INFERENCE, _inference(spec)), (METADATA, _metadata(spec, notes))):
        (path / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _inference(spec: ModelSpec) -> dict[str, object]:
    """The configuration for `python -m monai.bundle run`, which prints the probabilities of every file of a folder."""
    return {
        "imports": ["$import pathlib", "$import torch"],
        "bundle_root": ".",
        "dataset_dir": "@bundle_root",
        "classes": list(spec.classes),
        "files": "$sorted(str(p) for p in pathlib.Path(@dataset_dir).rglob('*') if p.is_file())",
        "preprocessing": {"_target_": "Compose", "transforms": _transforms(spec)},
        "network": f"$torch.export.load(@bundle_root + '/{NETWORK}').module()",
        "postprocessing": {"_target_": "Activations", "softmax": True, "dim": 0},
        "inferer": {"_target_": "SimpleInferer"},
        "predict": "$lambda path: @postprocessing(@inferer(@preprocessing(path)[None], @network)[0])",
        "run": ["$[print(path, *(f'{float(p):.6f}' for p in @predict(path))) for path in @files]"],
    }


def _transforms(spec: ModelSpec) -> list[dict[str, object]]:
    recipe = dict(spec.preprocessing.recipe)
    kind = recipe.get("format")
    if kind == "images":
        read = [_read_image(recipe)]
    elif kind is not None:
        read = [{"_target_": "participant.record.monai_bundle.ReadSample", "recipe": recipe}]
    else:  # stored samples: one .npy file each, with the channels first
        read = [{"_target_": "LoadImage", "reader": "NumpyReader", "image_only": True}]
    scale, offset = (
        f"torch.tensor({list(constant)!r})" if isinstance(constant, tuple) else repr(float(constant))
        for constant in (spec.preprocessing.scale, spec.preprocessing.offset)
    )
    affine = f"$lambda x: torch.as_tensor(x, dtype=torch.float32) * {scale} + {offset}"
    return [*read, {"_target_": "Lambda", "func": affine}]


def _read_image(recipe: Mapping[str, str]) -> dict[str, object]:
    mode = "L" if recipe["channels"] == "1" else "RGB"
    resize = f".resize(({recipe['size']}, {recipe['size']}), 2)" if "size" in recipe else ""  # 2: bilinear
    reader = {
        "_target_": "PILReader",
        "converter": f"$lambda image: image.convert('{mode}'){resize}",
        "reverse_indexing": False,
    }
    return {"_target_": "LoadImage", "reader": reader, "image_only": True, "ensure_channel_first": True}


def _metadata(spec: ModelSpec, notes: Mapping[str, str]) -> dict[str, object]:
    channels, *spatial = spec.input_shape
    packages = {} if dict(spec.preprocessing.recipe).get("format") in (None, "images") else {"fedap": _version("fedap")}
    return {
        "schema": "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/meta_schema_20240725.json",
        "version": "1.0.0",
        "changelog": {"1.0.0": f"exported {datetime.now(UTC):%Y-%m-%d}"},
        "monai_version": _version("monai", _MONAI),
        "pytorch_version": torch.__version__.partition("+")[0],
        "numpy_version": np.__version__,
        "required_packages_version": packages,
        "name": f"{spec.model} of {notes.get('participant', 'a participant')}",
        "task": "classification",
        "description": f"Personalised by federated learning; preprocessing: {spec.preprocessing}",
        "authors": notes.get("participant", "unknown"),
        "copyright": "as the participant says",
        "fedap_notes": dict(notes),
        "network_data_format": {
            "inputs": {
                "image": {
                    "type": "image",
                    "format": "magnitude",
                    "num_channels": channels,
                    "spatial_shape": spatial,
                    "dtype": "float32",
                    "value_range": [],
                    "is_patch_data": False,
                    "channel_def": {str(number): f"channel {number}" for number in range(channels)},
                }
            },
            "outputs": {
                "pred": {
                    "type": "probabilities",
                    "format": "classes",
                    "num_channels": len(spec.classes),
                    "spatial_shape": [len(spec.classes)],
                    "dtype": "float32",
                    "value_range": [0, 1],
                    "is_patch_data": False,
                    "channel_def": {str(number): name for number, name in enumerate(spec.classes)},
                }
            },
        },
    }


def _version(package: str, otherwise: str = "0") -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return otherwise
