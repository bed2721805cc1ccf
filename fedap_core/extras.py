"""Which extra of the installation brings which library. Imports none of them.

`pip install fedap` brings what a coordinator needs. Everything else is imported where it is used, and a missing library
ends a command in one sentence (`fedap_core.errors`).
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
"""Name in an `import` -> the extra. A library that several extras bring has the one that most users lack."""
