"""List everything that leaves a participant: every message it ever sends, with fields, tensors and their bytes.

One function computes the list; `check` prints it, and a test compares it with the bytes actually sent. It follows from
the algorithm and the model alone, before any connection is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedap_core.errors import InvalidInput, require_known
from fedap_core.measures import statistics_arrays
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.batchnorm import require_batch_norm
from fedap_core.splits import MIN_TRAIN_SAMPLES
from fedap_core.strategies import Measure, Strategy, make_strategy, sealing_objection
from participant.config import DataSettings
from participant.decisions.layouts import floating_layout, shared_layout
from participant.joining import LocalSetup
from participant.privacy_summary import privacy_lines, update_lines
from participant.record.model_file import module_of
from participant.sealing_summary import sealed_layouts, sealed_lines
from participant.training.outgoing import find_step
from participant.training.privacy_budget import StatisticsPrivacy, UpdatePrivacy
from protocol.encodings import ENCODINGS, Encoding, encoding_of
from protocol.limits import SLICE_BYTES
from protocol.messages import (
    Cancel,
    Error,
    Goodbye,
    Grant,
    Heartbeat,
    Hello,
    Leave,
    Message,
    Sealing,
    Slice,
    Stats,
    Update,
)
from protocol.tensors import Layout, WireTensor

MESSAGES_WITHOUT_TENSORS: tuple[type[Message], ...] = (Hello, Heartbeat, Error, Grant, Cancel, Leave)
"""Messages without tensors: digests, counts, round numbers, receipts, reasons."""


WHEN = {
    "hello": "on every connection: name, a random number kept in the state folder and one of this process, digests of "
    "model, classes and preprocessing, sample counts",
    "heartbeat": "every few seconds: the round, and what the participant waits for",
    "error": "when a message is invalid, or an order is not allowed",
    "grant": "acknowledges weights that arrive in slices",
    "cancel": "when such weights are no longer needed",
    "leave": "when asked to stop, or when the coordinator keeps sending orders that are not allowed",
}

HELLO_WITHOUT_COUNTS = WHEN["hello"].replace("sample counts", "0 instead of sample counts")


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """One kind of message that is sent: when, its fields, and its tensors (by field) with their bytes."""

    kind: str
    when: str
    fields: tuple[str, ...]
    tensors: tuple[tuple[str, Layout], ...] = ()
    encoding: Encoding = "f32"

    @property
    def tensor_bytes(self) -> int:
        return sum(layout.size_bytes(self.encoding) for _, layout in self.tensors)

    @property
    def tensor_names(self) -> tuple[str, ...]:
        return tuple(spec.name for _, layout in self.tensors for spec in layout.specs)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Everything the list depends on."""

    spec: ModelSpec
    strategy: Strategy
    rounds: int
    splits: tuple[str, ...] = ("test",)
    warmup_rounds: int = 0
    encoding: Encoding = "f32"
    share_class_counts: bool = False
    share_comparison: bool = False
    sealing: Sealing | None = None


def what_leaves(subject: Subject) -> tuple[Leaving, ...]:
    """List every message that is sent. A message or tensor that is not in this list is never sent."""
    hidden = subject.sealing is not None and subject.sealing.statistics_to == "members"
    messages = [
        _plain(kind, HELLO_WITHOUT_COUNTS if hidden and kind is Hello else "") for kind in MESSAGES_WITHOUT_TENSORS
    ]
    messages.append(_statistics(subject))
    if subject.warmup_rounds:
        everything = {"weights": floating_layout(subject.spec)}
        messages.append(_update(subject, f"each of {subject.warmup_rounds} warm-up rounds", everything))
    weights = {"weights": shared_layout(subject.spec, subject.strategy)}
    rounds = subject.rounds - subject.warmup_rounds
    plans = [subject.strategy.round_plan(number, rounds) for number in range(rounds)]
    measured = [number + subject.warmup_rounds for number, plan in enumerate(plans) if plan.measure is not Measure.NONE]
    if len(measured) < rounds:
        messages.append(_update(subject, f"each of {rounds - len(measured)} rounds", weights))
    if measured:
        with_statistics = {**weights, "statistics": _moments(subject, subject.strategy.round_measure)}
        when = f"in round {measured[0] + 1}, or a later one if the coordinator lacks them"
        messages.append(_update(subject, when, with_statistics))
    compared = ", with the scores of the model trained alone" if subject.share_comparison else ""
    messages.append(_sealed(subject, Goodbye, f"once, at the end{compared}", _tables(subject), "f32"))
    if any(one.tensor_bytes > SLICE_BYTES for one in messages):
        messages.append(_plain(Slice, "the bytes of the tensors above, in slices of at most 4 MiB"))
    return tuple(messages)


def stays_home(subject: Subject) -> tuple[str, ...]:
    """Return the names of the model's tensors that are never sent."""
    clear = replace(subject, sealing=None)  # sealed tensors are sent under one name
    leaving = {name for one in what_leaves(clear) for name in one.tensor_names}
    return tuple(tensor.name for tensor in subject.spec.tensors if tensor.name not in leaving)


def describe(
    home: LocalSetup,
    settings: DataSettings,
    *,
    algorithm: str,
    options: Mapping[str, object],
    rounds: int,
    warmup_rounds: int,
    encoding: str,
    statistics: StatisticsPrivacy | None = None,
    updates: UpdatePrivacy | None = None,
    steps: Sequence[str] = (),
    sealing: Sealing | None = None,
) -> str:
    """Return the list as text, for the person who decides; refuse settings that cannot work."""
    subject = subject_of(
        home, settings, algorithm=algorithm, options=options, rounds=rounds, warmup_rounds=warmup_rounds,
        encoding=encoding, sealing=sealing,
    )  # fmt: skip
    parts = home.split(settings)
    counts = ", ".join(f"{len(positions)} {part}" for part, positions in parts.items())
    values = sum(tensor.size for tensor in home.spec.tensors)
    lines = [
        f"data: {home.data.dataset.name}, {len(home.data.dataset)} samples ({counts})",
        f"model: {home.spec.model}, input {home.spec.input_shape}, {len(home.spec.classes)} classes, {values:,} values",
        f"algorithm: {algorithm}, {rounds} rounds" + (f", {warmup_rounds} of them warm-up" if warmup_rounds else ""),
        "",
        "stays local: every sample and label; the prediction for every sample; "
        + ("class counts; confusion matrices; " if not subject.share_class_counts else "")
        + f"the tensors {', '.join(stays_home(subject)) or 'none'}"
        + "".join(f"; the model {name!r} that the algorithm keeps" for name in subject.strategy.kept_models),
        "",
    ]
    if statistics is not None:
        lines += privacy_lines(home, subject.strategy, statistics, train=parts["train"], model_file=settings.model_file)
    if updates is not None:
        shared = shared_layout(home.spec, subject.strategy).elements
        lines += update_lines(subject.strategy, updates, rounds=rounds, values=shared)
    if steps:
        for step in steps:
            find_step(step)
        lines += [f"outgoing_steps: {', '.join(steps)}; applied to every tensor below before it is sent", ""]
    lines.append("leaves:")
    for one in what_leaves(subject):
        names = ", ".join(one.tensor_names) or "none"
        size = f", {one.tensor_bytes:,} bytes of tensors: {names}" if one.tensors else ""
        lines.append(f"  {one.kind} ({one.when}): {', '.join(one.fields)}{size}")
    if sealing is not None:
        lines += ["", *sealed_lines(sealing)]
    if len(parts["train"]) < MIN_TRAIN_SAMPLES:
        lines += ["", f"note: {len(parts['train'])} training samples; most federations require {MIN_TRAIN_SAMPLES}."]
    return "\n".join(lines)


def subject_of(
    home: LocalSetup,
    settings: DataSettings,
    *,
    algorithm: str,
    options: Mapping[str, object],
    rounds: int,
    warmup_rounds: int,
    encoding: str,
    sealing: Sealing | None = None,
) -> Subject:
    """Return the inputs of the list; refuse an algorithm that this model cannot run."""
    require_known("encoding", encoding, ENCODINGS)
    if warmup_rounds >= rounds:
        raise InvalidInput("warmup_rounds", warmup_rounds, f"fewer than the {rounds} rounds")
    strategy = make_strategy(algorithm, options)
    if sealing is not None and (refused := sealing_objection(strategy)):
        raise InvalidInput("algorithm", algorithm, f"one that can be sealed: {refused}")
    if sealing is not None and encoding != "f32":
        raise InvalidInput("encoding", encoding, "f32: sealed values have a fixed width")
    spec = home.spec
    module = module_of(spec, {})  # refuses a model whose code has changed
    if strategy.needs_batch_norm:
        require_batch_norm(module, strategy.name)
    parts = home.split(settings)
    return Subject(
        spec=spec,
        strategy=strategy,
        rounds=rounds,
        splits=tuple(part for part in parts if part != "train"),
        warmup_rounds=warmup_rounds,
        encoding=encoding_of(encoding),
        share_class_counts=settings.shares_class_counts,
        share_comparison=settings.shares_comparison,
        sealing=sealing,
    )


def _plain(kind: type[Message], when: str = "") -> Leaving:
    return _with(kind, when or WHEN[kind.KIND], {}, "f32")


def _with(kind: type[Message], when: str, tensors: Mapping[str, Layout], encoding: Encoding) -> Leaving:
    optional = {"statistics", "tables", "row"}
    fields = tuple(name for name, _ in kind.CONTRACTS if name not in optional or name in tensors)
    return Leaving(kind=kind.KIND, when=when, fields=fields, tensors=tuple(tensors.items()), encoding=encoding)


def _update(subject: Subject, when: str, tensors: Mapping[str, Layout]) -> Leaving:
    return _sealed(subject, Update, when, {**tensors, **_tables(subject)}, subject.encoding)


def _statistics(subject: Subject) -> Leaving:
    """The answer to `anchor`; in a sealed run whose members compute W it always carries the number of samples."""
    first = subject.strategy.first_measure
    if first is not Measure.NONE:
        moments = {"moments": _moments(subject, first)}
        return _sealed(subject, Stats, "once, before the first regular round", moments, "f32")
    nothing = {"moments": Layout(())}
    if subject.sealing is not None and subject.sealing.statistics_to == "members":
        return _sealed(subject, Stats, "once, before the first regular round", nothing, "f32")
    return _with(Stats, "once, empty, if training starts from an anchor", nothing, "f32")


def _sealed(
    subject: Subject, kind: type[Message], when: str, tensors: Mapping[str, Layout], encoding: Encoding
) -> Leaving:
    if subject.sealing is not None:
        splits = () if kind is Stats else subject.splits
        tensors = sealed_layouts(subject.sealing, tensors, splits=splits, requests=kind is Update)
    return _with(kind, when, tensors, encoding)


def _tables(subject: Subject) -> dict[str, Layout]:
    if not subject.share_class_counts:
        return {}
    classes = len(subject.spec.classes)
    specs = [WireTensor(name="class_counts", dtype="int64", shape=(classes,))]
    specs += [WireTensor(name=f"confusion/{s}", dtype="int64", shape=(classes, classes)) for s in subject.splits]
    return {"tables": Layout(tuple(specs))}


def _moments(subject: Subject, measure: Measure) -> Layout:
    """Count, mean and variance per layer, and a covariance if the algorithm compares covariances."""
    arrays = statistics_arrays(subject.spec, subject.strategy, measure)
    return Layout(tuple(WireTensor(name=one.name, dtype=one.dtype, shape=one.shape) for one in arrays))
