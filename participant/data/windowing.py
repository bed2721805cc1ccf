"""Convert grey values of any unit to 8-bit images by a window: a range of values that becomes 0 to 255.

Pure arithmetic; the sources decide which window to use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedap_core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Window:
    """Values from center - width / 2 to center + width / 2; values outside are clipped."""

    center: float
    width: float

    @classmethod
    def parse(cls, text: str, others: str) -> Window:
        """Parse center/width, as in 40/400. others: other allowed values of the option, for the error message."""
        parts = text.split("/")
        try:
            center, width = (float(part) for part in parts)
        except ValueError:
            center = width = np.nan
        if not (np.isfinite(center) and width > 0):
            raise InvalidInput("data option 'window'", text, f"center/width, as in 40/400, or {others}")
        return cls(center=center, width=width)

    def shares(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each value's position in the window, from 0 to 1."""
        return np.clip((values - self.center) / self.width + 0.5, 0.0, 1.0)


def to_8_bits(shares: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Convert 0..1 to 0..255, rounded to the nearest."""
    return np.rint(shares * 255.0).astype(np.uint8)
