"""The array types of the mathematics: the number format of each kind of value. No computation."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
"""Statistics, distances and mixing weights: small, and summed over many clients, hence double precision."""

Float32Array: TypeAlias = NDArray[np.float32]
"""Model parameters when trained, sent and mixed."""

IndexArray: TypeAlias = NDArray[np.int64]
"""Positions, labels, groups and counts of samples."""

BoolArray: TypeAlias = NDArray[np.bool_]
"""One boolean per member."""
