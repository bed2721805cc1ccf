"""Prepare every tensor that leaves a participant: nothing but `OutgoingTensors` builds tensor sets to send.

Steps run between computing and sending: this is the one place to add noise or clipping, for weights, statistics and
tables alike. Noise of a privacy budget comes first, then the steps that the configuration names. The strategy and the
participant's settings decide what is sent at all. Delivered tensors and scores are converted here, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from fedap_core.arrays import Float32Array, IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.factories import find_factory, users_code
from fedap_core.metrics import QUALITIES, Evaluation
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.randomness import derive_seed
from fedap_core.workspace import DELIVERED
from protocol.encodings import Encoding, downward, stored, with_feedback
from protocol.messages import Score
from protocol.tensors import Array, Layout, TensorSet


@dataclass(frozen=True, kw_only=True)
class Departing:
    """Tensors about to be sent. kind: weights, statistics or tables. round_no: that of the order they answer.

    arrays: by name, private copies that a step may change in place. A report may be sent again after a crash and must
    then be the same, so a step that draws random numbers derives them from `seed`. delivered: for weights, the public
    values that training started from, by the same names; None when a report is rebuilt after a restart.
    """

    kind: str
    round_no: int
    seed: int
    arrays: Mapping[str, Array]
    delivered: Mapping[str, Array] | None = None


class OutgoingStep(Protocol):
    """One step between computing and sending; it returns the same names, shapes and types."""

    def __call__(self, departing: Departing, /) -> Mapping[str, Array]: ...


def unchanged(departing: Departing, /) -> Mapping[str, Array]:
    """Send the computed values unchanged."""
    return departing.arrays


STEPS: dict[str, OutgoingStep] = {"none": unchanged}
"""Steps by the names that `outgoing_steps` takes; users' own: `package.module:function`."""


@dataclass(frozen=True, kw_only=True)
class OwnStep:
    """A user's own step. An exception, or tensors of another form than it was given, end the participant."""

    name: str
    function: OutgoingStep

    def __call__(self, departing: Departing, /) -> Mapping[str, Array]:
        forms = {name: (array.shape, array.dtype) for name, array in departing.arrays.items()}
        with users_code("outgoing_steps", self.name, "a step that changes tensors"):
            stepped = self.function(departing)
            found = {name: (array.shape, array.dtype) for name, array in stepped.items()}
        odd = sorted(name for name in forms.keys() | found.keys() if forms.get(name) != found.get(name))
        if odd:
            expected = "a step that returns the names, shapes and types that it was given"
            raise InvalidInput("outgoing_steps", self.name, f"{expected}; {departing.kind} differ in {odd[0]}")
        return stepped


def find_step(name: str) -> OutgoingStep:
    """The step of that name: one of `STEPS`, or a user's own function."""
    if ":" in name:
        return OwnStep(name=name, function=find_factory("outgoing_steps", name))
    if name not in STEPS:
        raise InvalidInput("outgoing_steps", name, f"package.module:function, or one of {', '.join(STEPS)}")
    return STEPS[name]


@dataclass(frozen=True, kw_only=True)
class OutgoingTensors:
    """Builds the outgoing tensor sets of one participant in one run. steps: applied in order to every set. variances:
    names of tensors that must not be negative."""

    encoding: Encoding
    participant: str
    seed: int
    steps: tuple[OutgoingStep, ...] = (unchanged,)
    variances: frozenset[str] = frozenset()

    @property
    def changes(self) -> bool:
        """Whether the sent values differ from the computed ones: they must then be saved, to be drawn only once."""
        return self.steps != (unchanged,)

    def weights(
        self,
        layout: Layout,
        values: Float32Array,
        *,
        round_no: int,
        delivered: Float32Array | None = None,
        encoding: Encoding | None = None,
    ) -> TensorSet:
        """Build a set from flat values (elements,) in the order of the layout; the array then belongs to the message.

        delivered: as in `Departing`. encoding: the one to use; by default the plan's encoding for full values."""
        arrays = layout.views(values)
        base = None if delivered is None else layout.views(delivered)
        for name, array in self._stepped("weights", round_no, arrays, base).items():
            if array is not arrays[name]:
                arrays[name][...] = array
        return TensorSet.of_flat(layout, values, encoding or stored(self.encoding))

    def arrays(self, kind: str, arrays: Mapping[str, Array], *, round_no: int) -> TensorSet:
        """Build a set of statistics or tables, at full precision."""
        return TensorSet.of(self._stepped(kind, round_no, {name: np.array(array) for name, array in arrays.items()}))

    def difference(
        self, layout: Layout, values: Float32Array, *, delivered: Float32Array, error: Float32Array, round_no: int
    ) -> tuple[TensorSet, Float32Array]:
        """Return flat values as a difference to the delivered ones, and the encoding error; see `with_feedback`."""
        stepped = self.weights(layout, values, round_no=round_no, delivered=delivered, encoding="f32").flat()
        wire, arrived, lost = with_feedback(
            stepped,
            delivered=delivered,
            error=error,
            encoding=self.encoding,
            variances=_ranges(layout, self.variances),
        )
        in_full = self.in_full(layout, arrived)
        return TensorSet(layout=layout, encoding=self.encoding, data=wire.toreadonly(), in_full=in_full), lost

    def in_full(self, layout: Layout, values: Float32Array) -> TensorSet:
        """Build a set from values that were sent before, as the coordinator stores them; no steps are applied again."""
        return TensorSet.of_flat(layout, values, stored(self.encoding))

    def as_delivered(self, layout: Layout, values: Float32Array) -> Float32Array:
        """Return values as the coordinator would send them: the encoding may round them."""
        return TensorSet.of_flat(layout, values.copy(), downward(self.encoding)).flat()

    def _stepped(
        self, kind: str, round_no: int, arrays: Mapping[str, Array], delivered: Mapping[str, Array] | None = None
    ) -> Mapping[str, Array]:
        for number, step in enumerate(self.steps):
            purpose = f"outgoing {kind} {number}"
            seed = derive_seed(self.seed, participant=self.participant, round_no=round_no, purpose=purpose)
            arrays = step(Departing(kind=kind, round_no=round_no, seed=seed, arrays=arrays, delivered=delivered))
        return arrays


def weights_of(tensors: TensorSet, layout: Layout, what: str) -> Float32Array:
    """Return the flat values (elements,) of a set, which must have this layout."""
    if tensors.layout != layout:
        got, expected = _named(tensors.layout), _named(layout)
        raise InvalidInput(f"tensors of {what}", got, f"the plan's tensors: {expected}")
    return tensors.flat()


def model_of(tensors: TensorSet, spec: ModelSpec, what: str, *, fill: State | None = None) -> State:
    """Return all tensors of a model from a set; counters missing from the set are taken from `fill`."""
    arrays = tensors.arrays()
    state: State = {}
    for tensor in spec.tensors:
        found = arrays.get(tensor.name)
        if found is None and fill is not None and not tensor.floating:
            state[tensor.name] = fill[tensor.name].clone()
        elif found is None or found.shape != tensor.shape:
            raise InvalidInput(what, f"tensor {tensor.name} missing or of the wrong shape", f"shape {tensor.shape}")
        else:
            state[tensor.name] = torch.from_numpy(np.array(found))
    unknown = arrays.keys() - state.keys()
    if unknown:
        raise InvalidInput(what, f"tensor {min(unknown)}", "tensors of this model only")
    return state


def score_of(split: str, evaluation: Evaluation, *, model: str = DELIVERED) -> Score:
    """Return the score of an evaluation, without the confusion matrix."""
    return Score(
        model=model,
        split=split,
        samples=evaluation.samples,
        correct=evaluation.correct,
        loss=evaluation.loss if math.isfinite(evaluation.loss) else None,
        **{name: getattr(evaluation, name) for name in QUALITIES},
    )


def tables_of(class_counts: IndexArray, evaluations: Mapping[str, Evaluation]) -> dict[str, Array]:
    """Class counts of the training data and a confusion matrix per split: only if the participant shares them."""
    confusions = {f"confusion/{split}": np.array(one.confusion) for split, one in evaluations.items()}
    return {"class_counts": class_counts, **confusions}


def _ranges(layout: Layout, names: Collection[str]) -> list[tuple[int, int]]:
    """Return where these tensors are among the flat values of a layout."""
    ranges, start = [], 0
    for spec in layout.specs:
        stop = start + math.prod(spec.shape)
        if spec.name in names:
            ranges.append((start, stop))
        start = stop
    return ranges


def _named(layout: Layout) -> str:
    return ", ".join(spec.line for spec in layout.specs) or "none"
