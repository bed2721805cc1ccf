"""Defines the interface of engines: run a run's missing rounds, write a run folder, the same bits as any other engine.

An engine is a file with one function of this signature and one line in `ENGINES`. It decides how much it does in
parallel; nothing in `EngineOptions` changes a number.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fedap_core.errors import InvalidInput
from scripts.run.cohort import Cohort
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How the work is done. An engine ignores options that do not apply to it.

    workers: processes that train clients. participants_per_process: how many real participants share a process.
    keep_models: save models, so that a run can be resumed. memory_gb: if clients would take more, their models are kept
    in files; None: half of the machine's memory. ray_address: of a cluster; empty: RAY_ADDRESS, or this machine.
    gpus_per_actor: what Ray reserves for each. on_round: called with every round and its accuracy.
    """

    root: Path
    workers: int = 1
    participants_per_process: int = 1
    keep_models: bool = True
    memory_gb: float | None = None
    ray_address: str = ""
    gpus_per_actor: float = 0.0
    on_round: Callable[[int, float | None], None] = lambda _round_no, _accuracy: None

    def __post_init__(self) -> None:
        for field in ("workers", "participants_per_process"):
            if getattr(self, field) < 1:
                raise InvalidInput(field, getattr(self, field), "at least 1")
        if self.memory_gb is not None and not 0.0 < self.memory_gb < math.inf:
            raise InvalidInput("memory", self.memory_gb, "a number of gigabytes above 0")
        if not 0.0 <= self.gpus_per_actor < math.inf:
            expected = "a number from 0: 0.25 is four actors on one GPU"
            raise InvalidInput("gpus-per-actor", self.gpus_per_actor, expected)

    @property
    def memory_bytes(self) -> int:
        """Memory that the clients of one run may take."""
        if self.memory_gb is not None:
            return int(self.memory_gb * 1e9)
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


class Engine(Protocol):
    """Run the missing rounds of a run and return its folder."""

    def __call__(self, settings: RunSettings, cohort: Cohort, options: EngineOptions) -> RunFolder: ...


@dataclass(frozen=True, kw_only=True)
class Registered:
    """One line of the table. where: `module:function`, imported when needed, and torch with it.

    modes: the run modes that it supports. fills_machine: whether a single run uses all cores. repeats_noise: whether
    noise for privacy comes from the seed; real participants draw it from secrets.
    """

    where: str
    modes: tuple[str, ...] = ("barrier",)
    fills_machine: bool = False
    repeats_noise: bool = True

    def require_able(self, settings: RunSettings) -> None:
        """Refuse a run that this engine does not support."""
        if settings.mode not in self.modes:
            fix = "Use --engine processes, or `fedap-lab asynchronous` for a virtual clock."
            raise InvalidInput("mode", settings.mode, f"{' or '.join(self.modes)} with this engine", fix)
        if settings.sealed and not self.repeats_noise:
            raise InvalidInput("sealed", True, "false with this engine", "Use --engine inline.")
        for budget in (settings.statistics_privacy, settings.update_privacy):
            if budget is not None and not self.repeats_noise:
                raise InvalidInput(budget.SECTION, "given", "none with this engine", "Use --engine inline.")
