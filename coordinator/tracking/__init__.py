"""The interface for experiment trackers: `KIND:PLACE` names a tracker, to which a run is logged by round.

`TRACKERS` lists them. Each needs a library from an installation extra; if it is missing, one sentence says so before
anything starts. A run that is resumed, or logged again, continues under its name and adds only what is new.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Mapping
from typing import Protocol

from fedap_core.errors import InvalidInput, missing_library


class TrackedRun(Protocol):
    """One run in a tracker."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log values by name for a round. step: the round, from 1."""

    def close(self, *, ended: bool) -> None:
        """Close after the last value. ended: the run is over, not only its process."""


class Tracker(Protocol):
    """A place where runs are logged."""

    def begin(self, name: str, identity: str, settings: Mapping[str, str]) -> TrackedRun:
        """Start or resume a run with its settings. identity: finds a resumed run again."""


TRACKERS: Mapping[str, tuple[str, str]] = {
    "mlflow": ("mlflow", "coordinator.tracking.mlflow_runs:MlflowTracker"),
    "tensorboard": ("tensorboard", "coordinator.tracking.tensorboard_events:TensorboardTracker"),
}
"""kind -> (required library, module:class). The class takes the place as text."""


def require_tracker(text: str) -> None:
    """Refuse text that names no tracker, or one whose library is not installed. Imports nothing."""
    kind, colon, place = text.partition(":")
    if kind not in TRACKERS or not colon or not place:
        expected = " or ".join(("mlflow:URI", "tensorboard:FOLDER"))
        raise InvalidInput("track", text, expected, "A URI may be a folder or the address of a server.")
    library = TRACKERS[kind][0]
    if importlib.util.find_spec(library) is None:
        raise missing_library(library)


def make_tracker(text: str) -> Tracker:
    """Create the tracker that `KIND:PLACE` names; imports its library."""
    require_tracker(text)
    kind, _, place = text.partition(":")
    module, _, name = TRACKERS[kind][1].partition(":")
    made: Tracker = getattr(importlib.import_module(module), name)(place)
    return made


def figure_name(*parts: str) -> str:
    """Return a name that every tracker accepts: letters, digits, dots, dashes, and slashes between parts."""
    return "/".join(re.sub(r"[^A-Za-z0-9_.-]+", "_", part) or "_" for part in parts)
