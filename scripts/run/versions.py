"""Versions of the software and hardware that computed a result, which it depends on beside its settings."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("fedap", "torch", "numpy", "medmnist")


def versions() -> dict[str, str]:
    """Package versions, Python and the processor."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return {**found, "python": platform.python_version(), "machine": platform.machine()}
