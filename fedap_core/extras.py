"""Map libraries to the installation extras that contain them. Imports none of them.

`pip install fedap` installs what a coordinator needs. Everything else is imported where it is used, and a missing
library ends a command with a one-line error (`fedap_core.errors`).
"""

from __future__ import annotations

from collections.abc import Mapping

EXTRAS: Mapping[str, str] = {
    "PIL": "participant",
    "cryptography": "participant",
    "torch": "participant",
    "jinja2": "lab",
    "matplotlib": "lab",
    "medmnist": "lab",
    "scipy": "lab",
    "seglearn": "lab",
    "prometheus_client": "page",
    "starlette": "page",
    "uvicorn": "page",
    "pydicom": "dicom",
    "nibabel": "nifti",
    "monai": "monai",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
    "dp_accounting": "privacy",
    "mlflow": "mlflow",
    "tensorboard": "tensorboard",
    "tenseal": "bench",
    "atheris": "fuzz",
    "ray": "ray",
}
"""Import name -> extra. A library in several extras is listed with the one that most users lack."""
