"""Does the same mixing under CKKS with TenSEAL: updates are encrypted by their members and summed without a key.

Decides the parameters: degree 8192 with moduli of 60, 40 and 40 bits and a scale of 2^40, which allow one product with
plain weights. A ciphertext holds a vector of 4096 values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tenseal

from fedap_core.arrays import Float32Array

DEGREE = 8192
MODULI = [60, 40, 40]
SCALE_BITS = 40
PLACES = DEGREE // 2


class CkksUpdates:
    """Updates of all members, with the same values: the time does not depend on them."""

    def __init__(self, values: Float32Array, members: int) -> None:
        self._context = tenseal.context(
            tenseal.SCHEME_TYPE.CKKS, poly_modulus_degree=DEGREE, coeff_mod_bit_sizes=MODULI
        )
        self._context.global_scale = 2.0**SCALE_BITS
        self._values = values.astype(np.float64)
        self._updates = [self.encrypt() for _ in range(members)]
        self._sum: list[Any] = self._updates[0]

    @property
    def parameters(self) -> int:
        return self._values.size

    @property
    def update_bytes(self) -> int:
        """Size of an encrypted update on the wire."""
        return sum(len(one.serialize()) for one in self._updates[0])

    def encrypt(self) -> list[Any]:
        """Encrypt an update, vector by vector."""
        starts = range(0, self._values.size, PLACES)
        return [tenseal.ckks_vector(self._context, self._values[at : at + PLACES].tolist()) for at in starts]

    def mix(self) -> None:
        """Compute a weighted sum for every member."""
        share = 1.0 / len(self._updates)
        for _ in self._updates:
            self._sum = [self._weighted(vectors, share) for vectors in zip(*self._updates, strict=True)]

    def decrypt(self) -> None:
        """Decrypt one sum."""
        for one in self._sum:
            one.decrypt()

    def _weighted(self, vectors: tuple[Any, ...], share: float) -> Any:  # noqa: ANN401 - TenSEAL has no types
        total = vectors[0] * share
        for one in vectors[1:]:
            total += one * share
        return total
