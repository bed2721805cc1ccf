"""Decides which clients take part in which round, and how the models of those that receive one are mixed.

These are the coordinator's decisions for a run with partial participation (`coordinator.decisions.mixing_plan`),
without its network. If `participation` is 1, everybody takes part and nothing here has an effect.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coordinator.decisions.mixing_plan import round_rows
from coordinator.decisions.rules import PaceRules
from fedap_core import participation
from fedap_core.aggregation import Entries, entries_of
from fedap_core.arrays import BoolArray, FloatArray
from fedap_core.neighbours import NearestMembers
from fedap_core.strategies import Phase
from scripts.run.settings import RunSettings

TOOK_PART = "participation.json"
"""File beside saved models: the round of every client's latest update."""

_ROWS_AT_ONCE = 64
"""Rows of W over all clients that are in memory at the same time: 5 MB for ten thousand clients, reused."""


class Sampling:
    """The clients of one run."""

    def __init__(self, settings: RunSettings, clients: int) -> None:
        self._settings = settings
        self._strategy = settings.strategy()
        self._clients = clients
        self._latest = np.full(clients, participation.NEVER, dtype=np.int64)

    @property
    def is_partial(self) -> bool:
        return self._settings.participation < 1.0

    def chosen(self, round_no: int) -> list[int] | None:
        """Return who trains in a round and gets a model for it; None: everybody, as after the last round."""
        if not self.is_partial or round_no >= self._settings.rounds:
            return None
        share, seed = self._settings.participation, self._settings.seed
        return [int(one) for one in participation.drawn(self._clients, share=share, seed=seed, round_no=round_no)]

    def trained(self, chosen: Sequence[int], round_no: int) -> None:
        """Note that these clients have updates of this round."""
        self._latest[list(chosen)] = round_no

    def entering(self, chosen: Sequence[int] | None) -> list[int]:
        """Return those of the chosen that have not trained yet. chosen: None: everybody."""
        places = range(self._clients) if chosen is None else chosen
        return [place for place in places if self._latest[place] == participation.NEVER]

    def weights(
        self, weights: FloatArray, receivers: Sequence[int], phase: Phase, round_no: int
    ) -> tuple[list[int], FloatArray]:
        """Return (givers, how much each receiver takes from each of them), from W over all clients."""
        usable, own, discount = self._standing(phase, round_no)
        rows = round_rows(
            self._strategy, phase, weights[list(receivers)], receivers, usable=usable, own=own, discount=discount
        )
        givers = np.flatnonzero(usable)
        return [int(one) for one in givers], np.ascontiguousarray(rows[:, usable])

    def entries(self, nearest: NearestMembers, receivers: Sequence[int], round_no: int) -> list[Entries]:
        """Return how much each receiver takes from which clients, from a W of nearest members only."""
        usable, own, discount = self._standing(Phase.MIXED, round_no)
        found: list[Entries] = []
        for start in range(0, len(receivers), _ROWS_AT_ONCE):
            block = receivers[start : start + _ROWS_AT_ONCE]
            rows = nearest.rows(block, usable=usable & (discount > 0.0), neighbours=self._strategy.most_givers)
            if not own.all():
                rows = self._strategy.restrict(rows, usable=usable, own=own, discount=discount, places=block)
            found += entries_of(rows)
        return found

    def givers(self, round_no: int) -> set[int]:
        """Whose updates `entries` are of."""
        return {int(one) for one in np.flatnonzero(self._standing(Phase.MIXED, round_no)[0])}

    def _standing(self, phase: Phase, round_no: int) -> tuple[BoolArray, BoolArray, FloatArray]:
        personal, exponent = self._strategy.is_personal(phase), PaceRules().age_exponent
        return participation.standing(self._latest, round_no=round_no, personal=personal, exponent=exponent)

    def save(self, folder: Path) -> None:
        """Write what the next round depends on."""
        if self.is_partial:
            (folder / TOOK_PART).write_text(json.dumps(self._latest.tolist()) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Resume from a saved round."""
        if self.is_partial:
            self._latest[:] = json.loads((folder / TOOK_PART).read_text(encoding="utf-8"))
