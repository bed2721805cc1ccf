"""Judges what was delivered while training already goes on from it: a copy of the model, in a thread of its own.

So a round's update leaves as soon as it is trained. Where no core is free for that the model is judged before it is
trained; the numbers are the same, to the bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from fedap_core.metrics import Evaluation
from participant.training.local import LocalClient, use_threads

Evaluations = Mapping[str, Evaluation]
"""By split."""


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

    def examine(self, client: LocalClient) -> Evaluations:
        """The client's model as it stands, now."""
        return {split: client.evaluate(split) for split in self._splits}

    def begin(self, client: LocalClient, twin: Callable[[], LocalClient]) -> Callable[[], Evaluations]:
        """Judge the client's model as it stands, whatever becomes of it; ask what is returned when the numbers are
        needed. twin: another client of the same plan, whose model nobody trains."""
        if self._lane is None:
            found = self.examine(client)
            return lambda: found
        if self._latest is not None:
            wait([self._latest])  # of a round that was given up: it still reads the twin
        copy = twin()
        copy.load(client.state())
        self._latest = self._lane.submit(self.examine, copy)
        return self._latest.result

    def close(self) -> None:
        """Nobody asks any more; what is under way is awaited."""
        if self._lane is not None:
            self._lane.shutdown(cancel_futures=True)
