"""The rules of one run: all settings of the coordinator's machine, fixed before it starts.

The shell builds them from its configuration and the initial model file. They determine how long to wait and for whom;
the numerical results depend on the strategy and the plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedap_core.errors import InvalidInput
from fedap_core.participation import require_participation
from fedap_core.parts import LARGEST_VALUE
from fedap_core.strategies import Measure, Phase, RoundPlan, Strategy
from protocol.messages import Sealing


@dataclass(frozen=True, kw_only=True)
class ModelRules:
    """The digests and input shape that a `hello` must match."""

    model_layout: str
    classes: str
    input_shape: tuple[int, ...]
    preprocessing: str


@dataclass(frozen=True, kw_only=True)
class MemberRules:
    """Who may take part.

    allowed: (identity, name) pairs; None: anybody who can connect (open enrolment).
    at_least: members that the first round needs. at_most: number of members from which a hello is refused.
    enrolment_s: with fewer than all listed members (or in open enrolment) the first round starts this long after the
    run began, if `at_least` are present. late_join: whether new members may join after that.
    min_samples, max_samples: fewest and most training samples of a member; they weigh its updates. max_growth: factor
    by which its count may differ from the one it joined with. strikes: refused messages that exclude a member;
    `forgive_after` admitted updates in a row take one back, because in weeks even an honest member errs once or twice.
    """

    allowed: tuple[tuple[str, str], ...] | None = None
    at_least: int
    at_most: int = 10_000
    enrolment_s: float = math.inf
    late_join: bool = True
    min_samples: int = 32
    max_samples: int = 10_000_000
    max_growth: float = 2.0
    strikes: int = 3
    forgive_after: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.at_least <= self.at_most:
            raise InvalidInput("at_least", self.at_least, f"a number from 1 to at_most, {self.at_most}")
        if self.allowed is not None:
            check_allow_list(self.allowed)
        elif not self.enrolment_s < math.inf:
            fix = "With 0 the first round starts as soon as at_least members are present."
            raise InvalidInput("members.enrolment_s", "none", "seconds, because no list of members is given", fix)
        if self.min_samples < 1 or self.strikes < 1:
            raise InvalidInput("min_samples, strikes", (self.min_samples, self.strikes), "numbers from 1")
        if self.max_samples < self.min_samples:
            raise InvalidInput("max_samples", self.max_samples, f"at least min_samples, {self.min_samples}")
        if not self.max_growth >= 1.0 or self.forgive_after < 1:
            raise InvalidInput("max_growth, forgive_after", (self.max_growth, self.forgive_after), "numbers from 1")


@dataclass(frozen=True, kw_only=True)
class AdmissionRules:
    """Which values may be mixed.

    max_value: largest magnitude of a weight. max_statistic: of a mean of a layer's inputs, and of their deviation.
    max_step: how far one update may move from the weights sent, relative to the norm of the model that the run starts
    from (at least 1); applies from the first round. max_outlier: the same relative to the run's typical step: the
    largest median of a round so far. That needs three members.
    """

    max_value: float = 1e4
    max_statistic: float = LARGEST_VALUE
    max_step: float = 10.0
    max_outlier: float = 10.0

    def __post_init__(self) -> None:
        for name, bound in vars(self).items():
            if not 0 < bound < math.inf:
                raise InvalidInput(name, bound, "a finite number above 0")


def check_allow_list(allowed: tuple[tuple[str, str], ...]) -> None:
    """Refuse a list with a duplicate key or name, ignoring case because names become file names. A short list is valid:
    it may have been shortened during the run."""
    identities, names = {identity for identity, _ in allowed}, {name.lower() for _, name in allowed}
    if len(identities) != len(allowed) or len(names) != len(allowed):
        raise InvalidInput("list of members", "a key or a name twice", "every key and every name once")


@dataclass(frozen=True, kw_only=True)
class PaceRules:
    """Timeouts, quorum and patience.

    heartbeat_s: period of each side's heartbeats. dead_after_s: silence after which a member is not waited for.
    quorum: updates that a round needs to close without everyone. deadline_s: how long a round (and measuring) waits for
    present members; infinity: until `stalled_after_s`, after which a present member that has not reported is not waited
    for again until it reports. give_up_s: how long beyond its deadline a round may lack its quorum, and enrolment its
    members, before the run is aborted; infinity: never.
    linger_s: how long a finished run waits for absent members to fetch their model; for present ones,
    `stalled_after_s` if that is longer.
    age_exponent: a in (1 + age) ** -a, the weight of an old update; infinity drops it.
    patience: end the run when the members' mean validation accuracy has not risen for this many evaluations; None:
    never.
    """

    heartbeat_s: float = 10.0
    dead_after_s: float = 60.0
    quorum: int = 1
    deadline_s: float = math.inf
    stalled_after_s: float = math.inf
    give_up_s: float = math.inf
    linger_s: float = 60.0
    age_exponent: float = 0.5
    patience: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_s < math.inf:
            raise InvalidInput("heartbeat_s", self.heartbeat_s, "seconds above 0")
        if not self.dead_after_s >= 2 * self.heartbeat_s:
            raise InvalidInput("dead_after_s", self.dead_after_s, f"at least two heartbeats, {2 * self.heartbeat_s}")
        for name in ("deadline_s", "stalled_after_s", "give_up_s", "linger_s", "age_exponent"):
            if not getattr(self, name) >= 0:
                raise InvalidInput(name, getattr(self, name), "a number from 0")
        if self.quorum < 1 or (self.patience is not None and self.patience < 1):
            raise InvalidInput("quorum, patience", (self.quorum, self.patience), "numbers from 1")

    @property
    def has_deadline(self) -> bool:
        return not math.isinf(self.deadline_s)

    @property
    def longest_wait_s(self) -> float:
        """How long a round waits for a present member."""
        return self.deadline_s if self.has_deadline else self.stalled_after_s

    @property
    def longest_goodbye_s(self) -> float:
        """How long a finished run waits for the goodbye of a present member."""
        return max(self.linger_s, self.stalled_after_s)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """All rules of a run. continuous: no barrier between rounds. warmup_rounds: how many of `rounds` make the anchor.

    anchor_file: the anchor is a file (otherwise warm-up makes it, or statistics are measured under the initial model).
    start_from_anchor: round 0 (or the first after warm-up) starts from the anchor instead of the initial model.
    participation: share of the members that takes part in a round; chooses_present: draw only from present members.
    seed: for this draw. sealing: what is hidden from the coordinator; None: nothing.
    """

    run: str
    strategy: Strategy
    rounds: int
    continuous: bool = False
    warmup_rounds: int = 0
    anchor_file: bool = False
    start_from_anchor: bool = False
    participation: float = 1.0
    chooses_present: bool = False
    seed: int = 0
    model: ModelRules
    members: MemberRules
    pace: PaceRules
    admission: AdmissionRules = AdmissionRules()
    sealing: Sealing | None = None

    @property
    def members_compute_rows(self) -> bool:
        """Whether statistics are sealed, so that every member computes its own row of W."""
        return self.sealing is not None and self.sealing.statistics_to == "members"

    def round_plan(self, round_no: int) -> RoundPlan:
        """Return phase and measure of round `round_no`. The strategy counts from the first round after warm-up."""
        if round_no < self.warmup_rounds:
            return RoundPlan(phase=Phase.WARMUP)
        return self.strategy.round_plan(round_no - self.warmup_rounds, self.rounds - self.warmup_rounds)

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise InvalidInput("rounds", self.rounds, "at least one")
        require_participation(self.strategy, self.participation)
        if self.continuous:
            self.strategy.require_continuous()
        if self.sealing is not None and self.participation < 1.0:
            raise InvalidInput("participation", self.participation, "1 in a sealed run")
        if not 0 <= self.warmup_rounds < self.rounds:
            raise InvalidInput("warmup_rounds", self.warmup_rounds, f"from 0 to fewer than the {self.rounds} rounds")
        if self.warmup_rounds and self.anchor_file:
            raise InvalidInput("anchor", "a file and warm-up rounds", "one of the two")
        if self.warmup_rounds and not self.asks_first:
            raise InvalidInput("warmup_rounds", self.warmup_rounds, "0: this run has no use for an anchor")
        if self.start_from_anchor and not (self.anchor_file or self.warmup_rounds):
            raise InvalidInput("start_from", "anchor", "an anchor file or warm-up rounds to make one")

    @property
    def first_measure(self) -> Measure:
        """What members measure under the anchor before they train; NONE if the strategy does not need it."""
        return self.strategy.first_measure

    @property
    def asks_first(self) -> bool:
        """Whether members get an `anchor` order before they train: to measure, or to start from the whole anchor. A
        `train` order carries the shared tensors only, but the local ones must start from the anchor too."""
        return self.first_measure is not Measure.NONE or self.start_from_anchor or self.members_compute_rows
