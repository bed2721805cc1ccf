"""Settings that a participant chooses itself, independent of the plan. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from participant.sealing.group_key import GroupKey
from participant.training.privacy_budget import StatisticsPrivacy, UpdatePrivacy


@dataclass(frozen=True, kw_only=True)
class HomeSettings:
    """What the participant itself decides: whether class tables and the scores of training alone may leave, and whether
    it also trains alone.

    threads: training threads instead of the plan's; another number than the plan's gives other last bits. beside:
    whether a core that training leaves free may judge delivered models meanwhile. trusted: its own code that a plan may
    name. accept_plan: digest of a changed plan that the operator agrees to. algorithm_is_named: the operator has said
    which one to take part in. model_file, anchor_file: its own initial model and anchor. statistics_privacy,
    update_privacy: noise in what is measured, and in updates. group_key: the members' common key, where it takes part
    in sealed runs.
    """

    share_class_counts: bool = False
    share_comparison: bool = False
    also_local: bool = False
    threads: int | None = None
    beside: bool = False
    trusted: frozenset[str] = frozenset()
    accept_plan: str | None = None
    algorithm_is_named: bool = False
    model_file: Path | None = None
    statistics_privacy: StatisticsPrivacy | None = None
    update_privacy: UpdatePrivacy | None = None
    anchor_file: Path | None = None
    group_key: GroupKey | None = None
