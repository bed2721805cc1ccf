"""Evaluates the delivered model in parallel with training: a copy of the model, in its own thread.

So a round's update leaves as soon as it is trained. Where no core is free for that the model is judged before it is
trained; the numbers are the same, to the bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from fedap_core.metrics import Evaluation
from fedap_core.workspace import DELIVERED, HANDED_OVER
from participant.training.local import LocalClient, use_threads

Evaluations = Mapping[tuple[str, str], Evaluation]
"""By model (`workspace.DELIVERED`, and `HANDED_OVER` where that is another) and split."""


def headline(evaluations: Evaluations) -> dict[str, Evaluation]:
    """By split: of the model to hand over, which is the delivered one unless the strategy has another."""
    kinds = {kind for kind, _ in evaluations}
    shown = HANDED_OVER if HANDED_OVER in kinds else DELIVERED
    return {split: one for (kind, split), one in evaluations.items() if kind == shown}


class Examiner:
    """For one run. threads: as many as training takes; beside: whether the participant has its machine to itself."""

    def __init__(self, splits: Sequence[str], *, threads: int, beside: bool) -> None:
        self._splits = splits
        self._lane: ThreadPoolExecutor | None = None
        self._latest: Future[Evaluations] | None = None
        if beside and len(os.sched_getaffinity(0)) >= 2 * threads:
            self._lane = ThreadPoolExecutor(1, "examining", initializer=use_threads, initargs=(threads,))

    @property
    def is_beside(self) -> bool:
        """Whether training goes on meanwhile."""
        return self._lane is not None

    def examine(self, client: LocalClient, round_no: int) -> Evaluations:
        """The client's models as they stand, now, before round `round_no` is trained."""
        return {
            (model, split): client.evaluate(split, model, round_no=round_no)
            for model in client.evaluated_models
            for split in self._splits
        }

    def begin(self, client: LocalClient, twin: Callable[[], LocalClient], round_no: int) -> Callable[[], Evaluations]:
        """Judge the client's models as they stand, whatever becomes of them; ask what is returned when the numbers are
        needed. twin: another client of the same plan, whose models nobody trains. Training draws from torch's one
        generator, so a model that is trained before it is handed over is not judged beside another training."""
        if self._lane is None or client.trains_to_hand_over:
            found = self.examine(client, round_no)
            return lambda: found
        if self._latest is not None:
            wait([self._latest])  # of a round that was given up: it still reads the twin
        copy = twin()
        copy.load(client.state(), client.kept())
        self._latest = self._lane.submit(self.examine, copy, round_no)
        return self._latest.result

    def close(self) -> None:
        """Nobody asks any more; what is under way is awaited."""
        if self._lane is not None:
            self._lane.shutdown(cancel_futures=True)
