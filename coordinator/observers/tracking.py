"""Log a run to experiment trackers: each member's accuracy by round, mean, lowest, duration of rounds.

Trackers may be slow or unreachable: each has its own thread, and the coordinator never waits for it. If a tracker
fails, the error is logged and tracking stops; the run continues.
"""

from __future__ import annotations

import queue
import threading

import structlog

from coordinator.config import RunConfig
from coordinator.decisions import facts
from coordinator.decisions.progress import RunProgress
from coordinator.decisions.state import State
from coordinator.observers import Observer
from coordinator.tracking import TrackedRun, figure_name, make_tracker, require_tracker

log = structlog.get_logger()

_MOST_WAITING = 100_000
_CLOSING_S = 30.0
"""How long the end of a run waits for trackers."""

Logged = tuple[int, dict[str, float]]


class Tracking(Observer):
    """All trackers of one run."""

    def __init__(self, config: RunConfig) -> None:
        for text in config.track:
            require_tracker(text)
        self._progress = RunProgress(rounds=config.rounds, continuous=config.mode == "continuous", history=False)
        self._trackers = [_TrackerThread(text, config) for text in config.track]
        self._ended = False

    def on_fact(self, fact: facts.Fact, time_s: float, state: State) -> None:
        self._progress.add(fact, time_s)
        if isinstance(fact, facts.UpdateAccepted | facts.GoodbyeAccepted):
            score = self._progress.latest(fact.member)
            if score is not None:
                self._log(score.round, {figure_name("accuracy", fact.member): score.accuracy})
            if isinstance(fact, facts.UpdateAccepted) and fact.train_loss is not None:
                self._log(fact.round_no + 1, {figure_name("train_loss", fact.member): fact.train_loss})
        elif isinstance(fact, facts.RoundClosed):
            self._log_round(fact.round_no, list(fact.reported))
        elif isinstance(fact, facts.Ended):
            self._ended = True
            self._log_round(state.round_no + 1, list(state.members))

    def _log_round(self, judged: int, members: list[str]) -> None:
        """Log the summary of a round. judged: the round, from 1, whose models were scored."""
        summary = self._progress.summary(members)
        values = {} if summary is None else {"accuracy_mean": summary.mean, "accuracy_lowest": summary.lowest}
        if self._progress.last_round_s is not None:
            values["round_seconds"] = self._progress.last_round_s
        if values:
            self._log(judged, values | {"members_reported": float(len(members))})

    def _log(self, step: int, values: dict[str, float]) -> None:
        for tracker in self._trackers:
            tracker.put((step, values))

    def close(self) -> None:
        for tracker in self._trackers:
            tracker.close(ended=self._ended)


class _TrackerThread:
    """One tracker and the thread that sends to it."""

    def __init__(self, text: str, config: RunConfig) -> None:
        self._text = text
        self._config = config
        self._waiting: queue.Queue[Logged | None] = queue.Queue(_MOST_WAITING)
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=f"tracker {text}", daemon=True)
        self._thread.start()

    def put(self, logged: Logged) -> None:
        if self._thread.is_alive() and not self._waiting.full():
            self._waiting.put(logged)

    def close(self, *, ended: bool) -> None:
        self._ended = ended
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join(_CLOSING_S)

    def _run(self) -> None:
        try:
            run = self._begin()
            while (logged := self._waiting.get()) is not None:
                run.log(*logged)
            run.close(ended=self._ended)
        except Exception as error:  # noqa: BLE001 - no error of the tracker's library or server may end the run
            log.warning("tracker.given_up", tracker=self._text, reason=f"{type(error).__name__}: {error}")

    def _begin(self) -> TrackedRun:
        config = self._config
        settings = {
            "algorithm": config.algorithm.name,
            **{f"option.{key}": str(value) for key, value in config.algorithm.options.items()},
            **{name: str(getattr(config, name)) for name in ("rounds", "seed", "mode", "split", "encoding")},
            **{f"training.{key}": str(value) for key, value in config.training.model_dump(mode="json").items()},
        }
        return make_tracker(self._text).begin(config.run, f"{config.run} in {config.folder.absolute()}", settings)
