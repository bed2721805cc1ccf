"""Error feedback: an update that travels as a coarse difference carries over what the round before has lost.

What gets lost stays at home, is saved with the round and added to the next difference, so that it arrives later. Under
an encoding that sends values, nothing happens here. What is encoded how, `protocol.encodings` says.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fedap_core.arrays import Float32Array
from participant.record.private_state import SavedRound
from participant.training.outgoing import OutgoingTensors
from participant.training.reports import ARRIVED, LOST, flat_weights
from protocol.encodings import DIFFERENCES
from protocol.tensors import Layout, TensorSet


class Feedback:
    """One participant's in one run."""

    def __init__(self, outgoing: OutgoingTensors) -> None:
        self._outgoing = outgoing
        self._delivered: Float32Array | None = None

    def delivered(self, values: Float32Array | None) -> None:
        """What the next update is a difference to; None: nothing was delivered, the update travels in full."""
        if self._outgoing.encoding in DIFFERENCES:
            self._delivered = None if values is None else values.copy()

    def told(self, saved: SavedRound, layout: Layout, before: SavedRound | None) -> tuple[SavedRound, TensorSet | None]:
        """The round with what its report depends on, and the weights of the report: None for those in full.

        before: the round that was saved last, with what it has lost.
        """
        if self._outgoing.encoding not in DIFFERENCES:
            return saved, None
        error = np.zeros(layout.elements, dtype=np.float32)
        if before is not None and LOST in before.extras and before.extras[LOST].numel() == error.size:
            error = before.extras[LOST].numpy()
        base = self._delivered
        if base is None or base.size != error.size:
            return replace(saved, extras=saved.extras | {LOST: torch.from_numpy(error)}), None
        values = flat_weights(saved, layout)
        told, lost = self._outgoing.difference(layout, values, delivered=base, error=error, round_no=saved.round_no)
        arrived = told.flat() if told.in_full is None else told.in_full.flat()
        kept = {ARRIVED: torch.from_numpy(arrived.copy()), LOST: torch.from_numpy(lost)}
        return replace(saved, extras=saved.extras | kept), told
