"""The seam for experiment trackers: `KIND:PLACE` names one, and a run is logged there by round.

Which there are is `TRACKERS`. Each needs a library that is an extra of the installation; a missing one is told in one
sentence before anything starts. A run that is resumed, or logged again, goes on under its name and adds what is new.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Mapping
from typing import Protocol

from fedap_core.errors import InvalidInput, missing_library


class TrackedRun(Protocol):
    """One run at a tracker."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Figures by name at a round, from 1."""

    def close(self, *, ended: bool) -> None:
        """Everything is written. ended: the run is over, and not only its process."""


class Tracker(Protocol):
    """Where runs are logged."""

    def begin(self, name: str, identity: str, settings: Mapping[str, str]) -> TrackedRun:
        """A run with its settings; identity: by which a resumed one is found again."""


TRACKERS: Mapping[str, tuple[str, str]] = {
    "mlflow": ("mlflow", "coordinator.tracking.mlflow_runs:MlflowTracker"),
    "tensorboard": ("tensorboard", "coordinator.tracking.tensorboard_events:TensorboardTracker"),
}
"""kind -> (library that it needs, module:class). A class takes the place as text."""


def require_tracker(text: str) -> None:
    """Refuse what is no tracker, or one whose library is not installed. Loads nothing."""
    kind, colon, place = text.partition(":")
    if kind not in TRACKERS or not colon or not place:
        expected = " or ".join(("mlflow:URI", "tensorboard:FOLDER"))
        raise InvalidInput("track", text, expected, "A URI may be a folder or the address of a server.")
    library = TRACKERS[kind][0]
    if importlib.util.find_spec(library) is None:
        raise missing_library(library)


def make_tracker(text: str) -> Tracker:
    """The tracker that `KIND:PLACE` names; loads its library."""
    require_tracker(text)
    kind, _, place = text.partition(":")
    module, _, name = TRACKERS[kind][1].partition(":")
    made: Tracker = getattr(importlib.import_module(module), name)(place)
    return made


def figure_name(*parts: str) -> str:
    """A name that every tracker takes: letters, digits, dots, dashes, and slashes between parts."""
    return "/".join(re.sub(r"[^A-Za-z0-9_.-]+", "_", part) or "_" for part in parts)
