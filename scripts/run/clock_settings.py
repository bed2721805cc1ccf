"""Settings of a run under a virtual clock: the run's own, and how time passes for each client. A digest names the run.

Time is a setting like any other here: it decides whose updates are mixed, and therefore the numbers.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fedap_core.errors import InvalidInput
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings, digest

Mode = Literal["barrier", "continuous"]


class ClockSettings(BaseModel):
    """How time passes.

    epoch_s: virtual seconds that a local epoch takes a client with the cohort's mean number of training samples; others
    take longer or shorter in proportion, unless by_samples is off. slower: client -> how many times slower it is.
    lost: share of sent updates that never arrive; after a heartbeat of either side they are sent again.
    heartbeat_s, quorum, deadline_s, age_exponent: as in the coordinator's configuration; deadline_s None: no deadline.
    look_s: how often all clients' accuracy is recorded. horizon_s: when recording stops; None: at the run's end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mode: Mode = "barrier"
    epoch_s: float = Field(default=10.0, gt=0.0)
    by_samples: bool = True
    slower: dict[str, float] = {}
    lost: float = Field(default=0.0, ge=0.0, lt=1.0)
    heartbeat_s: float = Field(default=10.0, gt=0.0)
    quorum: int = Field(default=1, ge=1)
    deadline_s: float | None = Field(default=None, ge=0.0)
    age_exponent: float = Field(default=0.5, ge=0.0)
    look_s: float = Field(default=10.0, gt=0.0)
    horizon_s: float | None = Field(default=None, gt=0.0)

    @model_validator(mode="after")
    def _nobody_stands_still(self) -> ClockSettings:
        for name, factor in self.slower.items():
            if not 0.0 < factor < math.inf:
                raise InvalidInput(f"slower.{name}", factor, "a number above 0")
        return self


class AsyncSettings(BaseModel):
    """One run under a virtual clock."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: RunSettings
    clock: ClockSettings

    @model_validator(mode="after")
    def _is_possible(self) -> AsyncSettings:
        if self.run.uses_anchor and self.run.anchor.kind == "warmup":
            raise InvalidInput("anchor", "warmup", "pooled or a file, because the clock is virtual")
        if self.run.device != "cpu":
            raise InvalidInput("device", self.run.device, "cpu, because the clock is virtual")
        if self.run.mode != "barrier":
            raise InvalidInput(
                "mode", self.run.mode, "barrier in the run's own settings, because the clock sets the mode"
            )
        return self

    @property
    def identity(self) -> str:
        """A digest of everything the run's numbers depend on; always includes the rounds, because they end the run."""
        return digest([self.run.identity, self.run.rounds, self.clock.model_dump(mode="json")])


class AsyncFolder(RunFolder):
    """A run folder with one record per moment: `round` numbers them, `clock` is the virtual time in seconds."""

    def __init__(self, root: Path, settings: AsyncSettings) -> None:
        super().__init__(root, settings.run, identity=f"{settings.clock.mode}-{settings.identity}")

    def is_complete(self) -> bool:
        """Whether the run's last line was written: only that one has `ended`."""
        records = self.rounds()
        return bool(records) and "ended" in records[-1]
