"""Save the update as the coordinator decodes it, if it differs from the trained weights, with the round.

Error feedback: the rounding error of an update sent as a coarse difference is saved with the round and added to the
next difference, so that it arrives later. An update that an outgoing step changes (noise) is drawn only once and saved
as it was sent. Under an encoding that sends values, without such steps, this module does nothing. The encodings
themselves are in `protocol.encodings`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fedap_core.arrays import Float32Array
from fedap_core.nn.state import State
from participant.record.private_state import SavedRound
from participant.training.outgoing import OutgoingTensors
from participant.training.reports import ARRIVED, LOST, flat_weights, travelling_of
from protocol.encodings import DIFFERENCES
from protocol.tensors import Layout, TensorSet


class Feedback:
    """The error feedback of one participant in one run."""

    def __init__(self, outgoing: OutgoingTensors) -> None:
        self._outgoing = outgoing
        self._delivered: Float32Array | None = None
        self._differs = outgoing.encoding in DIFFERENCES

    def delivered(self, values: Float32Array | None) -> None:
        """Set the base of the next update's difference; None: nothing was delivered, the update is sent in full."""
        if self._differs or self._outgoing.changes:
            self._delivered = None if values is None else values.copy()

    def encode_update(
        self, saved: SavedRound, layout: Layout, before: SavedRound | None, start: State
    ) -> tuple[SavedRound, TensorSet | None]:
        """Return the round with everything its report depends on, and the difference to report: None for full weights.

        before: the previously saved round, with its error. start: the model of round 0.
        """
        if not layout.elements or not (self._differs or self._outgoing.changes):
            return saved, None
        values, difference, kept = flat_weights(travelling_of(saved), layout), None, {}
        base = self._delivered
        if base is not None and base.size != values.size:
            base = None
        if self._differs:
            error = _kept(before, LOST, values.size)
            lost = np.zeros_like(values) if error is None else error
            if base is not None:
                difference, lost = self._outgoing.difference(
                    layout, values, delivered=base, error=lost, round_no=saved.round_no
                )
                kept[ARRIVED] = difference.flat() if difference.in_full is None else difference.in_full.flat()
            kept[LOST] = lost
        if self._outgoing.changes and ARRIVED not in kept:
            base = _kept(before, ARRIVED, values.size) if base is None else base
            base = flat_weights(start, layout) if base is None else base
            kept[ARRIVED] = self._outgoing.weights(layout, values, round_no=saved.round_no, delivered=base).flat()
        extras = {name: torch.from_numpy(array.copy()) for name, array in kept.items()}
        return replace(saved, extras=saved.extras | extras), difference


def _kept(saved: SavedRound | None, name: str, size: int) -> Float32Array | None:
    """Return an extra of an earlier round, if it has this many values."""
    if saved is None or name not in saved.extras or saved.extras[name].numel() != size:
        return None
    found: Float32Array = saved.extras[name].numpy()
    return found
