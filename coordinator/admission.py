"""What is let in: a hello that fits the run, statistics and updates whose values can be mixed without harm.

`refuse_hello` judges before anything is remembered. `inspect_update` and `inspect_stats` look at values and are called
off the socket's thread; they stream over blocks, so that a model never lies in memory twice. A refusal has the wire's
code and a sentence with both values. What a refusal leads to is decided elsewhere.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from coordinator import instances
from coordinator.rules import Rules
from coordinator.state import Member, State, Status
from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.errors import InvalidInput
from protocol.messages import Hello, Reject

LARGEST_VALUE = 1e6
"""Weights of a working network are far below; float32 products of larger ones overflow in the next layers."""

FARTHEST = 10.0
"""How many times the median distance of the last closed round an update may go from what was sent."""

FEWEST_TO_COMPARE = 5
"""Members below which a median says nothing about who is odd."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """code None: admitted. distance: length of (update - sent), where something was sent to compare with."""

    code: str | None = None
    reason: str = ""
    distance: float | None = None


def name_of(hello: Hello, identity: str, allowed: tuple[tuple[str, str], ...] | None) -> str | None:
    """The name a participant has in this run: what the list says of its key, or what it says; None: not on the list."""
    if allowed is None:
        return hello.name
    return dict(allowed).get(identity)


def refuse_hello(hello: Hello, identity: str, state: State, rules: Rules) -> Reject | None:
    """Why somebody may not take part; None: welcome."""
    if state.ended:
        return Reject(code="run-over", reason=f"run {rules.run} has ended: {state.sentence}"[:500])
    name = name_of(hello, identity, state.allowed)
    if name is None:
        return Reject(code="unknown-key", reason="this key is not on the list of members")
    known = state.members.get(name)
    excluded = known is not None and known.status is Status.QUARANTINED
    instance, strikes = instances.digest_of(hello.instance), rules.members.strikes
    if known is not None and excluded and not instances.may_reclaim(known, instance, strikes):
        return Reject(code="quarantined", reason=f"{name} was excluded after {known.strikes} refused messages")
    if known is not None and known.identity != identity:
        return Reject(code="name-taken", reason=f"another participant has the name {name}")
    return _differing_model(hello, rules) or _no_room(known, state, rules)


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
    least = rules.members.min_samples
    if hello.train_samples < least:
        return Reject(
            code="too-few-samples",
            reason="too few training samples",
            ours=f"at least {least}",
            yours=str(hello.train_samples),
        )
    return None


def _no_room(known: Member | None, state: State, rules: Rules) -> Reject | None:
    if known is not None and known.is_active:
        return None
    if state.stage.is_over:
        return Reject(code="run-over", reason=f"run {rules.run} is over: {state.sentence}"[:500])
    if len(state.active()) >= rules.members.at_most:
        return Reject(code="full", reason=f"the run has its {rules.members.at_most} members")
    if state.enrolled and not rules.members.late_join and known is None:
        return Reject(code="full", reason="enrolment is over and this run takes no late members")
    return None


def _text(value: str | tuple[int, ...]) -> str:
    return value if isinstance(value, str) else "x".join(map(str, value))


@lru_cache(maxsize=4)  # asked for every update of a round, whose answer is the same
def distance_limit(distances: tuple[float, ...]) -> float | None:
    """The longest admitted distance, from those of the last closed round; None: too few, or nobody moved."""
    if len(distances) < FEWEST_TO_COMPARE:
        return None
    median = statistics.median(distances)
    return FARTHEST * median if median > 0 else None


def inspect_update(
    blocks: Iterable[tuple[Float32Array, Float32Array | None]], *, size: int, limit: float | None
) -> Judgement:
    """Judge an update, given as (values, what was sent) blocks in order. size: how many values the plan shares.

    Finite, none beyond LARGEST_VALUE, and not farther from what was sent than `limit`.
    """
    seen, squared, compared = 0, 0.0, True
    for values, sent in blocks:
        seen += values.size
        largest = float(np.abs(values).max()) if values.size else 0.0
        if not math.isfinite(largest):
            return Judgement(code="not-finite", reason="the update holds a NaN or an infinity")
        if largest > LARGEST_VALUE:
            return Judgement(code="out-of-range", reason=f"a value of {largest:.3g}, admitted are {LARGEST_VALUE:.0e}")
        compared = compared and sent is not None
        if sent is not None:
            difference = values - sent
            # not BLAS's product: that wakes its threads, which then spin for longer than all of this takes
            squared += float(np.multiply(difference, difference, out=difference).sum(dtype=np.float64))
    if seen != size:
        return Judgement(code="wrong-tensors", reason=f"{seen} values, the plan shares {size}")
    distance = math.sqrt(squared) if compared else None
    if distance is not None and limit is not None and distance > limit:
        reason = f"{distance:.3g} away from what was sent, admitted are {limit:.3g}"
        return Judgement(code="too-far", reason=reason, distance=distance)
    return Judgement(distance=distance)


def inspect_stats(
    moments: Mapping[str, NDArray[np.generic]],
    *,
    samples: int,
    channels: Mapping[str, int],
    covariance: bool,
    min_samples: int,
) -> Judgement | BnStats:
    """Judge statistics as the wire names them; the moments, layer by layer as in `channels`, when they are admitted.

    channels: the layers that must be there, in the model's order, and how many channels each has.
    """
    if samples < min_samples:
        return _bad(f"measured on {samples} samples, at least {min_samples} are asked for")
    parts = ("count", "mean", "variance", *(("covariance",) if covariance else ()))
    expected = {f"{layer}/{part}" for layer in channels for part in parts}
    if set(moments) != expected:
        odd = sorted(set(moments) ^ expected)
        return _bad(f"{len(odd)} tensors too many or too few, {odd[0]} for one")
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


def _bad(reason: str) -> Judgement:
    return Judgement(code="bad-statistics", reason=reason[:500])
