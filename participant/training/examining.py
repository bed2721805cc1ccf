"""Evaluate the delivered model in parallel with training: a copy of the model, in a separate thread.

So a round's update is sent as soon as it is trained. If no core is free for that, the model is evaluated before it is
trained; the numbers are identical to the bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from fedap_core.metrics import Evaluation
from fedap_core.workspace import DELIVERED, HANDED_OVER
from participant.training.local import LocalClient, use_threads

Evaluations = Mapping[tuple[str, str], Evaluation]
"""By model (`workspace.DELIVERED`, and `HANDED_OVER` if that is a different one) and split."""


def headline(evaluations: Evaluations) -> dict[str, Evaluation]:
    """Evaluations, by split, of the model to hand over: the delivered one unless the strategy has another."""
    kinds = {kind for kind, _ in evaluations}
    shown = HANDED_OVER if HANDED_OVER in kinds else DELIVERED
    return {split: one for (kind, split), one in evaluations.items() if kind == shown}


class Examiner:
    """Evaluates the models of one run. threads: as many as training uses. beside: allow a separate thread."""

    def __init__(self, splits: Sequence[str], *, threads: int, beside: bool) -> None:
        self._splits = splits
        self._lane: ThreadPoolExecutor | None = None
        self._latest: Future[Evaluations] | None = None
        if beside and len(os.sched_getaffinity(0)) >= 2 * threads:
            self._lane = ThreadPoolExecutor(1, "examining", initializer=use_threads, initargs=(threads,))

    @property
    def is_beside(self) -> bool:
        """Whether evaluation runs in parallel with training."""
        return self._lane is not None

    def examine(self, client: LocalClient, round_no: int) -> Evaluations:
        """Evaluate the client's current models now, before round `round_no` is trained."""
        return {
            (model, split): client.evaluate(split, model, round_no=round_no)
            for model in client.evaluated_models
            for split in self._splits
        }

    def begin(self, client: LocalClient, twin: Callable[[], LocalClient], round_no: int) -> Callable[[], Evaluations]:
        """Start evaluating the client's current models, even if they change later; call the returned function to get
        the numbers. twin: another client of the same plan, whose models are not trained. Training draws from torch's
        global generator, so a model that is trained before it is handed over is not evaluated during training."""
        if self._lane is None or client.trains_to_hand_over:
            found = self.examine(client, round_no)
            return lambda: found
        if self._latest is not None:
            wait([self._latest])  # an abandoned round's evaluation still reads the twin
        copy = twin()
        copy.load(client.state(), client.kept())
        self._latest = self._lane.submit(self.examine, copy, round_no)
        return self._latest.result

    def close(self) -> None:
        """Cancel queued evaluations and wait for the running one."""
        if self._lane is not None:
            self._lane.shutdown(cancel_futures=True)
