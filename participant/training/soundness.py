"""Decide whether delivered values are plausible weights: finite, of limited size, close to the participant's own.

Pure arithmetic on arrays; the consequences of a refusal are decided elsewhere. The bounds are wide: models of honest
federations are far inside, and a merely bad model passes. They keep destructive weights from replacing working ones.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from fedap_core.arrays import Float32Array
from fedap_core.parts import LARGEST_VALUE, LARGEST_VARIANCE
from participant.decisions.consent import Refusal
from protocol.tensors import Layout

FARTHEST = 100.0
"""Allowed distance of a delivered tensor from the own one: root mean square of the difference, in units of the own root
mean square or of 1, whichever is larger. Members differ by a fraction of it, a poisoned mixture by thousands."""

_BLOCK = 1 << 20
"""Values compared at a time: the difference of whole models would take a model's memory again."""


def unsound(
    values: Float32Array,
    layout: Layout,
    what: str,
    *,
    own: Float32Array | None = None,
    variances: Collection[str] = (),
) -> Refusal | None:
    """Why delivered values must not replace the own ones; None if they may. values, own: flat (elements,), in the order
    of `layout`.

    own: the participant's own model; None: only size and finiteness are checked. variances: names of tensors that hold
    running variances.
    """
    at = 0
    for spec in layout.specs:
        size = math.prod(spec.shape)
        piece = values[at : at + size]
        most = LARGEST_VARIANCE if spec.name in variances else LARGEST_VALUE
        near = None if own is None else own[at : at + size]
        found = _unsound_tensor(piece, near, most, f"{what}: tensor {spec.name}")
        if found is not None:
            return found
        at += size
    return None


def _unsound_tensor(piece: Float32Array, own: Float32Array | None, most: float, what: str) -> Refusal | None:
    if not piece.size:
        return None
    largest = max(float(piece.max()), -float(piece.min()))  # NaN if any value is
    if not math.isfinite(largest):
        return Refusal(code="not-finite", reason=f"{what} has values that are not finite")
    if largest > most:
        return Refusal(code="out-of-range", reason=f"{what} has a value of size {largest:.3g}, at most {most:g}")
    if own is None:
        return None
    distance, reach = _root_mean_square(piece, own), FARTHEST * max(_root_mean_square(own), 1.0)
    if distance > reach:
        words = f"is {distance:.3g} (root mean square) away from the local model, at most {reach:.3g}"
        return Refusal(code="too-far", reason=f"{what} {words}")
    return None


def _root_mean_square(values: Float32Array, minus: Float32Array | None = None) -> float:
    total = 0.0
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK].astype(np.float64)
        if minus is not None:
            block -= minus[start : start + _BLOCK]
        total += float(np.square(block, out=block).sum())  # not BLAS: its threads would compete with training
    return math.sqrt(total / max(values.size, 1))
