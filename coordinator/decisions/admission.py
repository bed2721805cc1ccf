"""Admission: which hellos fit the run, and which statistics and updates have values that are safe to mix.

`refuse_hello` decides before anything is stored. `inspect_update` and `inspect_stats` check values off the socket's
thread; they stream over blocks, so that a model is never in memory twice. A refusal has the code used on the wire and a
sentence with both values. Its consequences are decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coordinator.decisions import instances
from coordinator.decisions.actions import Inspect
from coordinator.decisions.events import Inspected
from coordinator.decisions.rules import AdmissionRules, Rules
from coordinator.decisions.state import Member, State, Status
from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.directions import Sketch
from fedap_core.errors import InvalidInput
from fedap_core.parts import TensorSpec, variance_ranges
from protocol.messages import Hello, Reject

FEWEST_TO_COMPARE = 3
"""Fewest members for which a median can identify an outlier: of three, one may be wrong."""

MOST_POSITIONS = 2**24
"""Most values per sample and channel that a layer may have: images of 4096 x 4096 at full resolution."""


NAMES_BEYOND = 1_000
"""Names that an open run stores beyond its maximum number of members: those of members that left for good."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict on a report. code None: admitted. distance: length of (update - sent), if there is a `sent`.

    direction: of that step, as `directions.Sketch` encodes it; empty: not computed.
    """

    code: str | None = None
    reason: str = ""
    distance: float | None = None
    direction: str = ""

    def answer(self, action: Inspect) -> Inspected:
        """Return this verdict as the event that answers the action."""
        return Inspected(
            member=action.member,
            kind=action.kind,
            round_no=action.round_no,
            code=self.code,
            reason=self.reason,
            distance=self.distance,
            direction=self.direction,
        )


def name_of(hello: Hello, identity: str, allowed: tuple[tuple[str, str], ...] | None) -> str | None:
    """Return a participant's name in this run: the one listed for its key, or without a list the one in its hello.
    None: its key is not listed."""
    if allowed is None:
        return hello.name
    return dict(allowed).get(identity)


def refuse_hello(hello: Hello, identity: str, state: State, rules: Rules) -> Reject | None:
    """Return why a participant may not join; None: it may."""
    if state.ended:
        return Reject(code="run-over", reason=f"run {rules.run} has ended: {state.sentence}"[:500])
    name = name_of(hello, identity, state.allowed)
    if name is None:
        return Reject(code="unknown-key", reason="this key is not on the list of members")
    known = state.members.get(name)
    excluded = known is not None and known.status is Status.EXCLUDED
    instance, strikes = instances.digest_of(hello.instance), rules.members.strikes
    if known is not None and excluded and not instances.may_reclaim(known, instance, strikes):
        return Reject(code="quarantined", reason=f"{name} was excluded after {known.strikes} refused messages")
    if known is not None and known.identity != identity and _is_listed(known, state):
        return Reject(code="name-taken", reason=f"another participant has the name {name}")
    if known is None and name.lower() in map(str.lower, state.members):
        return Reject(code="name-taken", reason=f"another participant has a name that differs from {name} only in case")
    sealed = _differing_key(hello, rules)
    if sealed is not None:
        return sealed
    return _differing_model(hello, rules) or _grown(hello, known, rules) or _no_room(known, state, rules)


def _is_listed(member: Member, state: State) -> bool:
    """Whether the list still assigns the member's key to its name; if not, the operator gave the name another key."""
    return state.allowed is None or (member.identity, member.name) in state.allowed


def _differing_key(hello: Hello, rules: Rules) -> Reject | None:
    ours = None if rules.sealing is None else rules.sealing.fingerprint
    if hello.group_key == ours:
        return None
    if ours is None:
        reason = "this run is not sealed, and the participant has a group key: join without --group-key, or do not join"
    elif hello.group_key is None:
        reason = "this run is sealed: join with --group-key and the members' key"
    else:
        reason = "the group key is not the one of this run's members: ask them for it"
    return Reject(code="wrong-group-key", reason=reason, ours=ours or "none", yours=hello.group_key or "none")


def _differing_model(hello: Hello, rules: Rules) -> Reject | None:
    pairs = (
        ("wrong-layout", "the tensors of the model", rules.model.model_layout, hello.model_layout),
        ("wrong-classes", "the class names or their order", rules.model.classes, hello.classes),
        ("wrong-input-shape", "the shape of an input", rules.model.input_shape, hello.input_shape),
        ("wrong-preprocessing", "the scaling of inputs", rules.model.preprocessing, hello.preprocessing),
    )
    for code, what, ours, yours in pairs:
        if ours != yours:
            return Reject(code=code, reason=f"{what} differs from the run's", ours=_text(ours), yours=_text(yours))
    if rules.members_compute_rows:  # sample counts are not used by the coordinator
        return None
    least, most = rules.members.min_samples, rules.members.max_samples
    if hello.train_samples < least:
        return _samples("too-few-samples", "too few training samples", f"at least {least}", hello)
    if hello.train_samples > most:
        return _samples("too-many-samples", "more training samples than members.max_samples", f"at most {most}", hello)
    return None


def _samples(code: str, reason: str, ours: str, hello: Hello) -> Reject:
    return Reject(code=code, reason=reason, ours=ours, yours=str(hello.train_samples))


def _grown(hello: Hello, known: Member | None, rules: Rules) -> Reject | None:
    """Refuse a sample count too far from the one the member joined with: the count weighs its updates, so it may follow
    the data but not be raised at will. Without keys, another process under the name is another participant."""
    if known is None or rules.members_compute_rows:
        return None
    if not instances.is_same(known, instances.digest_of(hello.instance)):
        return None
    factor, first = rules.members.max_growth, known.first_samples
    if first / factor <= hello.train_samples <= first * factor:
        return None
    expected = f"from {math.ceil(first / factor)} to {math.floor(first * factor)}: it joined with {first}"
    return _samples(
        "too-many-samples", "the number of training samples has changed too much since it joined", expected, hello
    )


def _no_room(known: Member | None, state: State, rules: Rules) -> Reject | None:
    if known is not None and known.is_active:
        return None
    if state.stage.is_over:
        return Reject(code="run-over", reason=f"run {rules.run} is over: {state.sentence}"[:500])
    most = rules.members.at_most
    if len(state.members) >= most and len(state.active()) >= most:  # the cheap check first: active() is O(members)
        return Reject(code="full", reason=f"the run has its {rules.members.at_most} members")
    if known is None and len(state.members) >= most + NAMES_BEYOND:
        return Reject(code="full", reason=f"{len(state.members)} names have come and gone, more than the run keeps")
    if state.enrolled and not rules.members.late_join and known is None:
        return Reject(code="full", reason="enrolment is over and this run takes no late members")
    return None


def _text(value: str | tuple[int, ...]) -> str:
    return value if isinstance(value, str) else "x".join(map(str, value))


def typical(distances: Iterable[float]) -> float | None:
    """Return the lower median of one round's update distances; None: too few to identify an outlier."""
    ordered = sorted(distances)
    return ordered[(len(ordered) - 1) // 2] if len(ordered) >= FEWEST_TO_COMPARE else None


@dataclass(frozen=True, kw_only=True)
class UpdateShape:
    """An update in wire order: first `trained` values changed by gradient descent, then running statistics up to
    `size`.

    variances: (start, stop) ranges of values that cannot be negative.
    """

    size: int
    trained: int
    variances: tuple[tuple[int, int], ...] = ()


def shape_of(tensors: Sequence[TensorSpec]) -> UpdateShape:
    """Return the shape of an update made of these tensors, given in wire order."""
    trained = sum(one.size for one in tensors if one.trainable)
    size = sum(one.size for one in tensors)
    return UpdateShape(size=size, trained=trained, variances=variance_ranges(tensors))


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Limits on an update: the run's rules, and how far trained values may move from the weights sent (limit; None: any
    distance)."""

    limit: float | None
    rules: AdmissionRules


def bounds_of(admission: AdmissionRules, *, length: float, typical: float | None) -> Bounds:
    """Return the limit that applies from the first round or, if smaller, the one derived from typical steps.

    length: norm of the trained values that the run started from.
    """
    most = admission.max_step * max(length, 1.0)
    return Bounds(limit=most if typical is None else min(typical, most), rules=admission)


@dataclass(frozen=True, kw_only=True)
class CheckedUpdate:
    """The input of `UPDATE_RULES`: an update whose values have all been read and are in range.

    distance: as in `Judgement`. train_loss: as reported by the member; None: not reported.
    """

    distance: float | None
    train_loss: float | None
    bounds: Bounds


def _too_far(update: CheckedUpdate) -> Judgement | None:
    distance, limit = update.distance, update.bounds.limit
    if distance is None or limit is None or distance <= limit:
        return None
    return Judgement(code="too-far", reason=f"{distance:.3g} away from what was sent, the limit is {limit:.3g}")


UPDATE_RULES: tuple[Callable[[CheckedUpdate], Judgement | None], ...] = (_too_far,)
"""Each returns why an update is refused, or None; the first refusal counts. Add a rule here and its bound as a field of
`AdmissionRules` and of the configuration's `Admission`."""


def inspect_update(
    blocks: Iterable[tuple[Float32Array, Float32Array | None]],
    *,
    shape: UpdateShape,
    bounds: Bounds,
    train_loss: float | None = None,
    directed: bool = False,
) -> Judgement:
    """Check an update, given as blocks of (values, weights sent) in order.

    Its values must be finite, within the bounds of their part, and pass all `UPDATE_RULES`. train_loss: as reported.
    directed: also compute the direction of the step; the length of each block but the last must then be a multiple of
    `directions.PIECE`.
    """
    rules, seen, squared, compared, sketch = bounds.rules, 0, 0.0, True, Sketch()
    for values, sent in blocks:
        cut = min(max(shape.trained - seen, 0), values.size)
        fault = _magnitude(values[:cut], rules.max_value) or _statistic(values[cut:], seen + cut, shape, rules)
        if fault is not None:
            return fault
        compared = compared and sent is not None
        if sent is not None:
            difference = values[:cut] - sent[:cut]
            if directed:
                sketch.add(seen, difference)
            # not a BLAS product: that wakes BLAS threads, which then spin for longer than this whole check takes
            squared += float(np.multiply(difference, difference, out=difference).sum(dtype=np.float64))
        seen += values.size
    if seen != shape.size:
        return Judgement(code="wrong-tensors", reason=f"{seen} values, the plan shares {shape.size}")
    distance = math.sqrt(squared) if compared else None
    update = CheckedUpdate(distance=distance, train_loss=train_loss, bounds=bounds)
    refused = next(filter(None, (rule(update) for rule in UPDATE_RULES)), None)
    return refused or Judgement(distance=distance, direction=sketch.text() if directed and compared else "")


def _magnitude(values: Float32Array, most: float) -> Judgement | None:
    # from both extremes: each is a NaN if any value is one, and no copy of all values is made
    largest = max(abs(float(values.max())), abs(float(values.min()))) if values.size else 0.0
    if not math.isfinite(largest):
        return Judgement(code="not-finite", reason="the update contains a NaN or an infinity")
    if largest > most:
        return Judgement(code="out-of-range", reason=f"a value of {largest:.3g}, the limit is {most:.3g}")
    return None


def _statistic(values: Float32Array, first: int, shape: UpdateShape, rules: AdmissionRules) -> Judgement | None:
    """Check running statistics that start at index `first`: means against one bound, variances against its square and
    0."""
    if not values.size:
        return None
    is_variance = np.zeros(values.size, dtype=np.bool_)
    for start, stop in shape.variances:
        is_variance[max(start - first, 0) : max(stop - first, 0)] = True
    variances = values[is_variance]
    if variances.size and float(variances.min()) < 0.0:
        return Judgement(code="out-of-range", reason=f"a running variance of {float(variances.min()):.3g}")
    return _magnitude(variances, rules.max_statistic**2) or _magnitude(values[~is_variance], rules.max_statistic)


def inspect_stats(
    moments: Mapping[str, NDArray[np.generic]],
    *,
    samples: int,
    channels: Mapping[str, int],
    covariance: bool,
    min_samples: int,
) -> Judgement | BnStats:
    """Check statistics named as on the wire; return the moments of each layer, in the order of `channels`, if admitted.

    channels: the required layers, in the model's order, and the number of channels of each.
    """
    if samples < min_samples:
        return _bad(f"measured on {samples} samples, at least {min_samples} are required")
    parts = ("count", "mean", "variance", *(("covariance",) if covariance else ()))
    expected = {f"{layer}/{part}" for layer in channels for part in parts}
    if set(moments) != expected:
        odd = sorted(set(moments) ^ expected)
        return _bad(f"{len(odd)} missing or unexpected tensors, such as {odd[0]}")
    try:
        layers = tuple(_layer(name, size, moments, covariance) for name, size in channels.items())
        return BnStats(samples=samples, layers=layers)
    except InvalidInput as error:
        return _bad(str(error))


def _layer(name: str, size: int, moments: Mapping[str, NDArray[np.generic]], covariance: bool) -> LayerMoments:
    def part(which: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        found = moments[f"{name}/{which}"]
        if found.shape != shape:
            raise InvalidInput(f"{name}/{which}", f"shape {found.shape}", str(shape))
        values = found.astype(np.float64)
        if not (np.abs(values) <= np.finfo(np.float32).max).all():  # false for NaN, too
            raise InvalidInput(f"{name}/{which}", "a value that is not finite or too large", "finite moments")
        return values

    return LayerMoments(
        name=name,
        count=int(part("count", ())),
        mean=part("mean", (size,)),
        variance=part("variance", (size,)),
        covariance=part("covariance", (size, size)) if covariance else None,
    )


def implausible(stats: BnStats, *, announced: int, max_statistic: float, per_position: bool) -> Judgement | None:
    """Return why statistics cannot come from the data that the member announced; None: they can.

    announced: training samples in its hello. max_statistic: largest magnitude of a mean, and of a standard deviation.
    per_position: whether a layer gets several values per sample, as after a convolution, or exactly one.
    """
    if stats.samples != announced:
        return _bad(f"measured on {stats.samples} samples, the hello announced {announced}")
    for layer in stats.layers:
        positions, rest = divmod(layer.count, stats.samples)
        if rest or not 1 <= positions <= (MOST_POSITIONS if per_position else 1):
            return _bad(f"{layer.name}: a count of {layer.count} from {stats.samples} samples")
        largest = float(max(np.abs(layer.mean).max(), math.sqrt(layer.variance.max())))
        if largest > max_statistic:
            return _bad(f"{layer.name}: a mean or deviation of {largest:.3g}, the limit is {max_statistic:.3g}")
    return None


def _bad(reason: str) -> Judgement:
    return Judgement(code="bad-statistics", reason=reason[:500])
