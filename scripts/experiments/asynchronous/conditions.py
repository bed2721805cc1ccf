"""Defines what goes wrong in the study (conditions), how rounds deal with it (ways), and the runs that compare them.

Time is measured in epochs of a typical client, EPOCH_S virtual seconds each; heartbeats and deadline have the same
ratio to an epoch as they might have in practice, where an epoch takes minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedap_core.errors import InvalidInput, require_known
from fedap_core.randomness import generator
from scripts.run.clock_settings import AsyncSettings, ClockSettings
from scripts.run.settings import RunSettings

EPOCH_S = 10.0
HEARTBEAT_S = 10.0
"""The coordinator's default: a lost update is requested again after one to two heartbeats."""
DEADLINE_S = 20.0
"""Twice what a typical client needs."""
RECORDS_PER_EPOCH = 2

WAYS = {
    "barrier": "barrier, waits for all",
    "deadline": "barrier, quorum and deadline",
    "continuous": "continuous",
}
"""How rounds are run, with the label used in figures."""

CONDITIONS = {"even": "nobody is slow, nothing is lost", "slow": "one member is slow", "lossy": "updates are lost"}


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """How bad the conditions are. slower: the slow member's factor; lost: share of sent updates that never arrive."""

    slower: float = 10.0
    lost: float = 0.3

    def __post_init__(self) -> None:
        if not self.slower > 0.0:
            raise InvalidInput("slower", self.slower, "a number above 0")
        if not 0.0 <= self.lost < 1.0:
            raise InvalidInput("lost", self.lost, "a share from 0 to below 1")

    def title(self, condition: str) -> str:
        """Return the condition's label in figures."""
        numbers = {
            "slow": f"one member {self.slower:g} times slower",
            "lossy": f"{100 * self.lost:g} % of updates lost",
        }
        return numbers.get(condition, CONDITIONS[condition])


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run of the study."""

    condition: str
    way: str
    settings: AsyncSettings

    @property
    def label(self) -> str:
        return f"{self.settings.run.label} seed {self.settings.run.seed}, {self.condition}, {self.way}"


def slow_member(names: Sequence[str], seed: int) -> str:
    """Return the slow member, drawn by seed so that seeds differ."""
    return names[int(generator(seed, purpose="slow-member").integers(len(names)))]


def case_of(run: RunSettings, names: Sequence[str], condition: str, way: str, trouble: Trouble) -> Case:
    """Return the run of one algorithm and seed on these clients, under one condition and in one way."""
    require_known("condition", condition, CONDITIONS)
    require_known("way", way, WAYS)
    clock = ClockSettings(
        mode="continuous" if way == "continuous" else "barrier",
        epoch_s=EPOCH_S,
        slower={slow_member(names, run.seed): trouble.slower} if condition == "slow" else {},
        lost=trouble.lost if condition == "lossy" else 0.0,
        heartbeat_s=HEARTBEAT_S,
        quorum=max(1, len(names) // 2) if way == "deadline" else 1,
        deadline_s=DEADLINE_S * run.sgd.epochs if way == "deadline" else None,
        look_s=EPOCH_S / RECORDS_PER_EPOCH,
    )
    return Case(condition=condition, way=way, settings=AsyncSettings(run=run, clock=clock))
