"""Logs runs as TensorBoard's event files, one folder per run; `tensorboard --logdir FOLDER` shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coordinator.tracking import TrackedRun, figure_name


class TensorboardTracker:
    """Logs runs to TensorBoard. place: the folder of all runs."""

    def __init__(self, place: str) -> None:
        self._folder = Path(place)

    def begin(self, name: str, identity: str, settings: Mapping[str, str]) -> TrackedRun:
        del identity  # a resumed run adds a file to its folder; points written twice are shown once
        return TensorboardRun(self._folder / figure_name(name), settings)


class TensorboardRun:
    """One run's event files."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event: Any = Event
        self._summary: Any = Summary
        self._writer: Any = EventFileWriter(str(folder))
        (folder / "settings.txt").write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        shown = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=shown)))
        self._writer.flush()

    def close(self, *, ended: bool) -> None:
        del ended
        self._writer.close()
