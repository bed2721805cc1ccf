"""Settings that a participant chooses itself, independent of the plan. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from participant.sealing.group_key import GroupKey
from participant.training.outgoing import OutgoingStep
from participant.training.privacy_budget import StatisticsPrivacy, UpdatePrivacy


@dataclass(frozen=True, kw_only=True)
class HomeSettings:
    """The participant's own decisions: whether to share class tables and the scores of the model trained alone, and
    whether to train one alone.

    threads: training threads instead of the plan's; a different number changes the last bits. beside: whether a free
    core may evaluate delivered models during training. trusted: own code that a plan may name. accept_plan: digest of a
    changed plan that the operator accepts. algorithm_is_named: whether the operator has named the algorithm.
    model_file, anchor_file: its own initial model and anchor. statistics_privacy, update_privacy: noise added to
    statistics and to updates. outgoing_steps: applied after the noise to every tensor that is sent. group_key: the
    members' common key, for sealed runs.
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
    outgoing_steps: tuple[OutgoingStep, ...] = ()
    anchor_file: Path | None = None
    group_key: GroupKey | None = None
