"""Logs the results of lab runs to an experiment tracker, read from their folders, as far as the runs have got.

A run is identified by its folder's name, so a comparison that is repeated or resumed adds only what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from coordinator.tracking import TrackedRun, figure_name, make_tracker, require_tracker
from scripts.run.records import RoundRecord
from scripts.run.run_folder import RunFolder


class LabTracking:
    """trackers: as `--track` names them; without any, nothing is logged. tell: receives a sentence about a tracker that
    fails; that tracker is not used again, and the runs continue."""

    def __init__(self, trackers: Sequence[str], report: Callable[[str], None]) -> None:
        for text in trackers:
            require_tracker(text)
        self._names = list(trackers)
        self._report = report
        self._runs: dict[tuple[str, str], TrackedRun] = {}
        self._logged: dict[str, int] = {}

    def update(self, folder: RunFolder) -> None:
        """Log the rounds of a run that were not logged yet."""
        if not self._names:
            return
        name, clients, records = folder.path.name, folder.members(), folder.records()
        for text in tuple(self._names):
            with self._unfailing(text):
                if (text, name) not in self._runs:
                    self._runs[text, name] = make_tracker(text).begin(name, name, _settings(folder))
                for record in records[self._logged.get(name, 0) :]:
                    if values := figures_of(record, clients):
                        self._runs[text, name].log(record.number + 1, values)
        self._logged[name] = len(records)

    def close(self) -> None:
        for (text, _), run in self._runs.items():
            with self._unfailing(text):
                run.close(ended=True)

    @contextmanager
    def _unfailing(self, text: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - third-party library and server: whatever fails, the runs continue
            self._report(f"No longer logged to {text}: {type(error).__name__}: {error}")
            self._names = [name for name in self._names if name != text]


def figures_of(record: RoundRecord, clients: Sequence[str]) -> dict[str, float]:
    """Return a round's figures by name."""
    values: dict[str, float] = {}
    for split, scores in record.splits.items():
        known = {name: one.accuracy for name, one in zip(clients, scores, strict=True) if one is not None}
        values |= {figure_name("accuracy", split, name): accuracy for name, accuracy in known.items()}
        if known:
            values[f"accuracy_mean/{split}"] = sum(known.values()) / len(known)
            values[f"accuracy_lowest/{split}"] = min(known.values())
    losses = [loss for loss in record.train_loss if loss is not None]
    if losses:
        values["train_loss_mean"] = sum(losses) / len(losses)
    return values | {figure_name("seconds", what): took for what, took in record.seconds.items()}


def _settings(folder: RunFolder) -> dict[str, str]:
    shown = folder.settings.model_dump(mode="json", exclude={"cohort"})
    plain = {key: str(value) for key, value in shown.items() if not isinstance(value, dict)}
    return {"data": folder.settings.cohort.data, **plain}
