"""Holds clients in worker processes, forked from a parent that has done no tensor work and alive for the whole run.

Parent and worker share the memory of every client's shared weights, so these are never sent. Orders and answers are
JSON on a pipe. A worker ends when its pipe closes, whatever happened to the parent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation
from fedap_core.strategies import Measure
from participant.training.local import LocalReport
from scripts.engines.pool import Chosen, ClientPool
from scripts.run.forked import ForkedWorkers
from scripts.run.messages import (
    error_from_json,
    error_to_json,
    evaluation_from_json,
    evaluation_to_json,
    report_from_json,
    report_to_json,
    stats_from_json,
    stats_to_json,
)


class ForkedPool:
    """Worker i modulo `workers` holds client i; answers are returned in the cohort's order."""

    def __init__(self, rows: Sequence[Float32Array], make_pool: Callable[[range], ClientPool], *, workers: int) -> None:
        """rows: in memory shared with children. make_pool: called in each child, with the places of its clients."""
        self._rows = rows
        self._count = len(rows)
        shares = [range(number, self._count, workers) for number in range(min(workers, self._count))]
        self._workers = ForkedWorkers([partial(_serve, make_pool, mine) for mine in shares], daemon=True)
        self._ask("ready")

    @property
    def rows(self) -> Sequence[Float32Array]:
        return self._rows

    def measure(self, anchor: Path, what: Measure) -> list[BnStats]:
        return [stats_from_json(answer) for answer in self._ask("measure", str(anchor), what)]

    def train(self, round_no: int, what: Measure, chosen: Chosen = None) -> list[LocalReport]:
        shares = self._shares(chosen)
        return [report_from_json(answer) for answer in self._ask("train", round_no, what, shares, among=chosen)]

    def deliver(self, round_no: int, chosen: Chosen = None, entering: Sequence[int] = ()) -> None:
        self._ask("deliver", round_no, self._shares(chosen), self._shares(entering))

    def evaluate(self, split: str, model: str, round_no: int, chosen: Chosen = None) -> list[Evaluation]:
        answers = self._ask("evaluate", split, model, round_no, self._shares(chosen), among=chosen)
        return [evaluation_from_json(answer) for answer in answers]

    def save(self, folder: Path, round_no: int) -> None:
        self._ask("save", str(folder), round_no)

    def load(self, folder: Path) -> None:
        self._ask("load", str(folder))

    def close(self) -> None:
        self._workers.close(stop=True)

    def _shares(self, chosen: Chosen) -> list[list[int] | None]:
        """Return for each worker which of its own clients are chosen; None: all of them."""
        workers = len(self._workers)
        if chosen is None:
            return [None] * workers
        return [[place // workers for place in chosen if place % workers == number] for number in range(workers)]

    def _ask(self, order: str, *arguments: object, among: Chosen = None) -> list[Any]:
        """Return answers in the cohort's order. If an argument is a list, each worker is sent its own entry. among: the
        clients that answer."""
        for number in range(len(self._workers)):
            mine = (one[number] if isinstance(one, list) else one for one in arguments)
            self._workers.send(number, [order, *mine], during=repr(order))
        answers: dict[int, Any] = {}
        workers = len(self._workers)
        for number in range(workers):
            answer = self._workers.receive(number, during=repr(order))
            if "error" in answer:
                raise error_from_json(answer["error"])
            places = [place for place in (range(self._count) if among is None else among) if place % workers == number]
            answers |= dict(zip(places, answer["answers"] or [None] * len(places), strict=True))
        return [answers[place] for place in sorted(answers)]


def _serve(make_pool: Callable[[range], ClientPool], mine: range, parent: Connection) -> None:
    """Answer orders until the parent closes the pipe."""
    pool = make_pool(mine)
    orders: dict[str, Callable[..., list[Any] | None]] = {
        "ready": lambda: None,
        "measure": lambda path, what: [stats_to_json(s) for s in pool.measure(Path(path), Measure(what))],
        "train": lambda number, what, some: [report_to_json(r) for r in pool.train(number, Measure(what), some)],
        "deliver": lambda *asked: pool.deliver(*asked),
        "evaluate": lambda *asked: [evaluation_to_json(e) for e in pool.evaluate(*asked)],
        "save": lambda folder, round_no: pool.save(Path(folder), round_no),
        "load": lambda folder: pool.load(Path(folder)),
    }
    while True:
        try:
            order, *arguments = json.loads(parent.recv_bytes())
        except (EOFError, ConnectionError):
            return
        try:
            answer: dict[str, Any] = {"answers": orders[order](*arguments)}
        except (InvalidInput, OSError) as error:
            answer = {"error": error_to_json(error)}
        try:
            parent.send_bytes(json.dumps(answer).encode())
        except ConnectionError:
            return
