"""How long targets take on two quiet cores: minutes, measured; what was never measured is not in the table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Duration:
    """Minutes, from nothing; `data` is what it was measured on. None: not measured."""

    data: str
    quick: float | None = None
    full: float | None = None

    @property
    def words(self) -> str:
        parts = [f"{name} {minutes:g} min" for name, minutes in (("quick", self.quick), ("full", self.full)) if minutes]
        return ", ".join(parts) + f" ({self.data})" if parts else ""


MEASURED: dict[str, Duration] = {}
