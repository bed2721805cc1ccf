"""Clients and the coordinator's work in one process: does in memory what a shell does with sockets, files and threads.

`Home` is a participant: its model, and the report it holds until its arrival is confirmed. `Workbench` performs the
work that the coordinator's machine requests. Neither decides anything, and neither knows a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coordinator.decisions.actions import Aggregate, BlobRef, Collect, Inspect, Order, RowRef, Source, Weigh, WeightsRef
from coordinator.decisions.admission import Judgement, bounds_of, inspect_update, shape_of
from coordinator.decisions.events import Inspected, MixingDone, WeighingDone
from coordinator.decisions.mixing_plan import mixture_of
from coordinator.decisions.rules import Rules
from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.robust import robust_mix_rows
from fedap_core.strategies import Evidence, Measure, Mixing, Strategy
from participant.training.local import LocalClient, LocalReport
from protocol.delivery import Outbox


class Home:
    """One client. Its model counts as delivered until it trains; it is evaluated at most once per delivery."""

    def __init__(self, client: LocalClient, splits: Sequence[str], strategy: Strategy) -> None:
        self.client = client
        self.splits = tuple(splits)
        self.strategy = strategy
        self.given: Float32Array | None = None
        """The weights of the latest order."""
        self.outbox = Outbox()
        self.order: Order | None = None
        self.report: LocalReport | None = None
        """Report of the latest training; its weights are the client's own until the next delivery."""
        self._round_no = 0
        self._evaluations: dict[str, Evaluation] | None = None

    def deliver(self, round_no: int, weights: Float32Array | None) -> None:
        """Take the weights of an order."""
        self._evaluations = None
        self._round_no = round_no
        if weights is None:
            return
        self.given = weights.copy()
        untrained = self.client.shared.copy() if self.order is None else None
        self.client.deliver(round_no, weights, untrained=untrained)

    @property
    def train_samples(self) -> int:
        """The count in its hello."""
        return self.client.train_samples

    @property
    def update(self) -> Float32Array:
        """The weights it reports after training."""
        return self.client.shared

    def measure(self, anchor: State, what: Measure) -> BnStats:
        """Measure its statistics under the anchor."""
        return self.client.measure(anchor, what)

    def evaluations(self) -> Mapping[str, Evaluation]:
        """Evaluate the model to hand over as of the latest delivery, by split."""
        if self._evaluations is None:
            model = self.client.evaluated_models[-1]
            self._evaluations = {
                split: self.client.evaluate(split, model, round_no=self._round_no) for split in self.splits
            }
        return self._evaluations

    def handed_over(self) -> State:
        """Return the model to keep."""
        return self.client.handed_over(self._round_no)

    def train(self, order: Order) -> LocalReport:
        """Train for one round from the delivered weights; the report is held until it has arrived."""
        self.order = order
        self.report = self.client.train(order.round_no, measure=order.measure)
        self.outbox.hold(order.step)
        return self.report


class Workbench:
    """Performs the machine's work on the tensors of a run, stored by the machine's references."""

    def __init__(self, rules: Rules, spec: ModelSpec, *, start: Float32Array, anchor: State) -> None:
        self._strategy = rules.strategy
        self._admission = rules.admission
        tensors = rules.strategy.travelling(spec)
        self._shape = shape_of(tensors)
        self._tensors = tensors
        self._start = start
        self._length = float(np.sqrt(np.square(start[: self._shape.trained], dtype=np.float64).sum()))
        self._updates: dict[BlobRef, Float32Array] = {}
        self._statistics: dict[BlobRef, BnStats] = {}
        self._rows: dict[RowRef, Float32Array] = {}
        self.anchor = anchor
        """The model to measure under; the initial one if there is no other."""
        self.mixing: tuple[tuple[str, ...], Mixing] | None = None
        """The latest W, and its members."""
        self.hostile: frozenset[str] = frozenset()
        """Members whose broken updates are refused like any other fault; for others they mean diverged training."""

    def put_update(self, member: str, round_no: int, weights: Float32Array, stats: BnStats | None) -> None:
        """Store an update."""
        self._updates[BlobRef(member=member, kind="update", round_no=round_no)] = weights.copy()
        if stats is not None:
            self._statistics[BlobRef(member=member, kind="update-statistics", round_no=round_no)] = stats

    def put_statistics(self, member: str, round_no: int, stats: BnStats) -> None:
        """Store statistics."""
        self._statistics[BlobRef(member=member, kind="stats", round_no=round_no)] = stats

    def weights(self, ref: WeightsRef | None) -> Float32Array | None:
        """Return the weights of an order, if still stored. A run starts from one model, initial or anchor."""
        if ref is None:
            return None
        return self._rows.get(ref.row) if ref.source is Source.ROW and ref.row is not None else self._start

    def inspect(self, action: Inspect) -> Inspected:
        """Judge a report by the coordinator's own rules."""
        judgement = Judgement()
        if action.kind == "update":
            ref = BlobRef(member=action.member, kind="update", round_no=action.round_no)
            values = self._updates[ref]
            block = (values, self.weights(action.sent))
            bounds = bounds_of(self._admission, length=self._length, typical=action.limit)
            directed = self._strategy.looks_at_directions
            judgement = inspect_update(
                [block], shape=self._shape, bounds=bounds, train_loss=action.train_loss, directed=directed
            )
            if judgement.code == "not-finite" and action.member not in self.hostile:
                raise InvalidInput(
                    f"update of {action.member} in round {action.round_no + 1}", "values that are not finite",
                    "finite weights", "Training diverged: lower the learning rate.",
                )  # fmt: skip
        return judgement.answer(action)

    def weigh(self, action: Weigh) -> WeighingDone:
        """Compute W from statistics."""
        stats = tuple(self._statistics[ref] for ref in action.statistics)
        mixing = self._strategy.mixing(Evidence(counts=action.samples, stats=stats))
        self.mixing = action.members, mixing
        return WeighingDone(ticket=action.ticket, weights=tuple(tuple(map(float, row)) for row in mixing.weights))

    def mix(self, action: Aggregate) -> MixingDone:
        """Compute rows from updates."""
        givers = [self._updates[ref] for ref in action.givers]
        rows = [np.empty_like(self._start) for _ in action.receivers]
        mixture = mixture_of(action, self._strategy, self._tensors)
        robust_mix_rows(mixture, self._strategy.robustness, givers, rows)
        self._rows.update(zip(action.receivers, rows, strict=True))
        return MixingDone(ticket=action.ticket)

    def collect(self, action: Collect) -> None:
        """Drop what is no longer needed."""
        self._updates = {ref: one for ref, one in self._updates.items() if ref in action.blobs}
        self._statistics = {ref: one for ref, one in self._statistics.items() if ref in action.blobs}
        self._rows = {ref: one for ref, one in self._rows.items() if ref in action.rows}
