"""The plan of a run: everything that affects its results, sent in `welcome`, so that two runs with equal plans, data
and members compute the same numbers. The types of message fields (run, round, digest, name) are defined here too.

Settings that differ between participants' machines (addresses, folders, timeouts) are configuration, not part of the
plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from protocol.contracts import FLAG, Buffer, Contract, Frames, Many, Record, matching, one_of, real, record, text, whole
from protocol.encodings import ENCODINGS
from protocol.errors import InvalidField
from protocol.limits import ITEMS, ROUNDS, TEXT_CHARS

RunId = Annotated[str, matching(r"[a-z0-9][a-z0-9-]{0,63}", "1 to 64 of a-z, 0-9 and -, not beginning with -")]
RESERVED_RUNS = frozenset({"current"})
"""Names that no run may have: a participant keeps a file of this name next to the folders of its runs."""

PEER_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
PEER_NAME_IN_WORDS = "1 to 64 letters, digits, dots, _ and -, beginning with a letter or digit"
PeerName = Annotated[str, matching(PEER_NAME, PEER_NAME_IN_WORDS)]
StrategyName = Annotated[str, matching(r"[a-z][a-z0-9-]{0,31}", "1 to 32 of a-z, 0-9 and -, beginning with a letter")]
"""A phase or a measure: a name chosen by the algorithm, which the protocol passes on without knowing it."""
RoundNo = Annotated[int, whole(0, ROUNDS)]
Count = Annotated[int, whole(0, 2**53)]
Digest = Annotated[str, matching(r"(?:[0-9a-f]{2}){8,32}", "16 to 64 lower-case hex digits, an even number of them")]
Token = Annotated[str, matching(r"[0-9a-f]{32}", "32 lower-case hex digits")]
FreeText = Annotated[str, text(TEXT_CHARS)]
ShortText = Annotated[str, text(100)]
Seconds = Annotated[float, real(0.0, above=True)]
Shape = Annotated[tuple[int, ...], Many(whole(1, 2**31), 8)]


class Options(Contract):
    """A flat map of settings: text to text, number, boolean or nil."""

    def __init__(self) -> None:
        super().__init__(
            f"a map of at most {ITEMS} settings: short text to short text, number, true, false or nil", _is_options
        )

    def write(self, value: object, frames: list[Buffer]) -> object:  # noqa: ARG002 - the contract's signature
        return dict(value) if isinstance(value, Mapping) else value

    def read(self, wire: object, frames: Frames, newer: bool) -> object:  # noqa: ARG002 - the contract's signature
        return MappingProxyType(wire) if isinstance(wire, dict) else wire


_SETTING_NAME, _SETTING_TEXT, _SETTING_NUMBER = text(64), text(200), real(-1e300, 1e300)


def _is_options(value: object) -> bool:
    if not isinstance(value, Mapping) or len(value) > ITEMS:
        return False
    return all(
        _SETTING_NAME.accepts(name)
        and (one is None or type(one) is bool or _SETTING_TEXT.accepts(one) or _SETTING_NUMBER.accepts(one))
        for name, one in value.items()
    )


Settings = Annotated[Mapping[str, str | int | float | bool | None], Options()]


CUTS = ("even", "reference")
"""How an epoch may be divided into batches."""


@record
class Sgd(Record):
    """Local training: stochastic gradient descent, the same for everybody.

    learning_rate: step size.
    lr_schedule: step size over the rounds after warm-up: constant, or falling along half a cosine.
    lr_floor: final step size of a falling schedule, as a share of learning_rate.
    momentum: heavy-ball momentum; 0 is none.
    weight_decay: factor of the squared norm in the loss.
    keep_momentum: keep the optimiser's state from round to round instead of resetting it.
    batch_size: training samples per step; batch norm needs two.
    batches: how an epoch is divided: batches of nearly equal size, or full ones and a smaller last one.
    epochs: passes over the training data per round.
    work_limit_s: stop after the batch in which this time runs out, and send the result so far; nil: no limit.
    """

    learning_rate: Annotated[float, real(0.0, 1000.0, above=True)] = 0.01
    lr_schedule: Annotated[str, one_of("constant", "cosine")] = "constant"
    lr_floor: Annotated[float, real(0.0, 1.0)] = 0.0
    momentum: Annotated[float, real(0.0, 1.0, below=True)] = 0.0
    weight_decay: Annotated[float, real(0.0, 1000.0)] = 0.0
    keep_momentum: Annotated[bool, FLAG] = False
    batch_size: Annotated[int, whole(2, 2**20)] = 32
    batches: Annotated[str, one_of(*CUTS)] = "even"
    epochs: Annotated[int, whole(1, 10_000)] = 1
    work_limit_s: Seconds | None = None


USER_RECIPE: Mapping[str, float | str] = {
    "learning_rate": 0.01,
    "lr_schedule": "cosine",
    "lr_floor": 0.1,
    "momentum": 0.9,
}
"""Default settings of a run: they reach in tens of rounds what the paper's settings reach in hundreds. With a floor of
0, mixing would continue while training no longer compensates for it: FedAP loses points in the last rounds."""

PAPER_RECIPE: Mapping[str, float | str] = {
    "learning_rate": 0.01,
    "lr_schedule": "constant",
    "lr_floor": 0.0,
    "momentum": 0.0,
}
"""The paper's settings, which are the defaults of the fields and of the lab."""


@record
class Compute(Record):
    """How a participant computes, as far as it changes bits.

    threads: threads of the training library.
    layers: tiled convolutions where they are faster, or those of the training library (stock).
    evaluation_batch_size: samples per forward pass when evaluating or measuring.
    """

    threads: Annotated[int, whole(1, 1024)] = 1
    layers: Annotated[str, one_of("tiled", "stock")] = "tiled"
    evaluation_batch_size: Annotated[int, whole(1, 2**20)] = 256


MAX_PEER_WEIGHT = 0.25
"""Default of the largest weight of one member in another's model, in a sealed run."""


@record
class Sealing(Record):
    """What a sealed run hides from the coordinator, and the rules for mixing it.

    fingerprint: of the members' common key.
    statistics_to: who sees statistics and sample counts in clear: only the members, or the coordinator as well.
    max_peer_weight: largest weight of one member in another's model; higher if there are few members.
    scores: whether losses and scores are sent in clear or sealed.
    age_exponent: a in (1 + age) ** -a, the discount of an update from an earlier round; nil: such updates do not count.
    """

    fingerprint: Digest
    statistics_to: Annotated[str, one_of("members", "coordinator")] = "members"
    max_peer_weight: Annotated[float, real(0.0, 1.0, above=True)] = MAX_PEER_WEIGHT
    scores: Annotated[str, one_of("clear", "sealed")] = "clear"
    age_exponent: Annotated[float, real(0.0)] | None = 0.5


TAIL_ROUNDS = 10
"""The accuracy of delivered models varies between rounds, so results also give the mean of this many last rounds."""


def is_evaluated(round_no: int, *, every: int, rounds: int) -> bool:
    """Whether the model delivered by a round is evaluated: every `every` rounds, and in the last ten."""
    return (round_no + 1) % every == 0 or round_no >= rounds - TAIL_ROUNDS


@record
class Plan(Record):
    """Everything that determines the results of a run.

    strategy: name of the algorithm, or `package.module:factory` for your own.
    options: the algorithm's settings.
    mode: whether rounds wait for all members (barrier), or each continues at once (continuous).
    rounds: number of rounds that each participant trains.
    seed: seed of all random numbers of the run.
    split: how each participant splits its data into training, validation and test.
    validation: share of the training samples held back to choose between models, if the split has no validation part.
    start_from: the model of round 0.
    anchor: where the model under which statistics are measured comes from.
    warmup_rounds: rounds that produce the anchor, if it comes from warm-up; they count towards `rounds`.
    evaluate_every: rounds between evaluations; the last 10 rounds are always evaluated.
    participation: share of the members that takes part in each round, drawn at random; 1 in continuous mode.
    choose_from: whether they are drawn from all members, or from those present when the round begins.
    encoding: how float32 tensors are encoded.
    model_layout: digest of the layout of the whole initial model.
    shared_layout: digest of the layout of the tensors that leave a participant.
    sgd: local training.
    compute: how a participant computes.
    sealed: how updates are hidden from the coordinator; nil: they are not.
    """

    strategy: Annotated[str, matching(r"[A-Za-z0-9_.:-]{1,200}", "1 to 200 letters, digits, and _ . : -")]
    options: Settings
    mode: Annotated[str, one_of("barrier", "continuous")]
    rounds: Annotated[int, whole(1, ROUNDS)]
    seed: Annotated[int, whole(0, 2**63 - 1)]
    split: Annotated[str, one_of("paper", "reference")]
    validation: Annotated[float, real(0.0, 0.5)] = 0.0
    start_from: Annotated[str, one_of("initial", "anchor")] = "initial"
    anchor: Annotated[str, one_of("none", "file", "warmup")] = "none"
    warmup_rounds: RoundNo = 0
    evaluate_every: Annotated[int, whole(1, ROUNDS)] = 1
    participation: Annotated[float, real(0.0, 1.0, above=True)] = 1.0
    choose_from: Annotated[str, one_of("members", "present")] = "members"
    encoding: Annotated[str, one_of(*ENCODINGS)]
    model_layout: Digest
    shared_layout: Digest
    sgd: Sgd
    compute: Compute
    sealed: Sealing | None = None

    def evaluates(self, round_no: int) -> bool:
        """Whether the model delivered by this round is evaluated."""
        return is_evaluated(round_no, every=self.evaluate_every, rounds=self.rounds)

    def _check(self) -> None:
        if (self.anchor == "warmup") != (self.warmup_rounds > 0):
            raise InvalidField("warmup_rounds", self.warmup_rounds, "above 0 exactly when the anchor is from warm-up")
        if self.participation < 1.0 and self.mode == "continuous":
            raise InvalidField(
                "participation", self.participation, "1 in continuous mode, which has no rounds to draw for"
            )
        if self.warmup_rounds >= self.rounds:
            raise InvalidField("warmup_rounds", self.warmup_rounds, f"fewer than the {self.rounds} rounds of the run")
