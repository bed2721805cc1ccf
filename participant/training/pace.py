"""Count the batches of a training round, report progress and decide when to stop.

The only clock in local training: the plan's work limit ends a round early and keeps the result, a stop request discards
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fedap_core.nn.samples import batch_bounds
from protocol.messages import Plan


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of the current round, for display."""

    round_no: int
    rounds: int
    epoch: int = 0
    epochs: int = 1
    batch: int = 0
    batches: int = 1
    loss: float | None = None
    accuracy: float | None = None


class Pace:
    """Decides after every batch whether to stop: on request (discarding the round) or at the work limit (keeping it).

    passes: how often the round goes through the training data.
    """

    def __init__(
        self,
        plan: Plan,
        samples: int,
        round_no: int,
        passes: int,
        watch: Callable[[Progress], None],
        should_stop: Callable[[], bool],
    ) -> None:
        self._batches = max(1, len(batch_bounds(samples, plan.sgd.batch_size, plan.sgd.batches)))
        self._plan, self._round_no, self._passes = plan, round_no, passes
        self._watch, self._should_stop = watch, should_stop
        self._began, self._steps = time.monotonic(), 0
        self.was_stopped = False
        self._tell()

    def asked(self) -> bool:
        self._steps += 1
        self._tell()
        self.was_stopped = self._should_stop()
        limit = self._plan.sgd.work_limit_s
        return self.was_stopped or (limit is not None and time.monotonic() - self._began >= limit)

    def done(self, loss: float | None, accuracy: float | None) -> None:
        """Report the finished round. accuracy: that of the model the round started with, if it was evaluated."""
        self._tell(loss, accuracy)

    def _tell(self, loss: float | None = None, accuracy: float | None = None) -> None:
        epoch, batch = divmod(self._steps, self._batches)
        self._watch(
            Progress(
                round_no=self._round_no,
                rounds=max(self._plan.rounds, self._round_no + 1),
                epoch=epoch,
                epochs=self._passes,
                batch=batch,
                batches=self._batches,
                loss=loss,
                accuracy=accuracy,
            )
        )
