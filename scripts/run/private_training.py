"""Clips clients' updates and adds noise, as participants would: the lab's repeatable version.

The arithmetic is the participant's; only the noise differs: it comes from the run's seed instead of a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.parts import TensorSpec
from fedap_core.private_updates import privatise
from fedap_core.randomness import generator
from participant.training.private_updates import refuse_unclipped
from protocol.tensors import Layout
from scripts.run.settings import RunSettings


class PrivateRows:
    """The rows of all clients of one run: (values,) each, in the order of `tensors`."""

    def __init__(self, settings: RunSettings, names: Sequence[str], tensors: Sequence[TensorSpec]) -> None:
        self._privacy = settings.update_privacy
        self._seed = settings.seed
        self._names = names
        self._layout = Layout.described(tensors)
        self._variances = {tensor.name for tensor in tensors if tensor.is_variance}
        self._begun: dict[int, Float32Array] = {}
        if self._privacy is not None:
            refuse_unclipped(settings.strategy())
            self._multiplier = self._privacy.noise_multiplier

    def begin(self, rows: Sequence[Float32Array], chosen: Iterable[int]) -> None:
        """Call before training: remember the delivered rows of the chosen clients."""
        if self._privacy is not None and self._layout.specs:
            self._begun = {place: rows[place].copy() for place in chosen}

    def release(self, rows: Sequence[Float32Array], round_no: int) -> None:
        """Call after training: replace the rows by what would leave the clients."""
        for place, before in self._begun.items():
            self._release(rows[place], before, self._names[place], round_no)
        self._begun = {}

    def _release(self, row: Float32Array, before: Float32Array, name: str, round_no: int) -> None:
        if self._privacy is None:
            return
        rng = generator(self._seed, purpose="private updates", participant=name, round_no=round_no)

        def noise(_block: str, size: int) -> FloatArray:
            drawn: FloatArray = rng.standard_normal((size,))
            return drawn

        privatise(
            self._layout.views(row), self._layout.views(before), clip=self._privacy.clip,
            noise_multiplier=self._multiplier, noise=noise, variances=self._variances,
        )  # fmt: skip
