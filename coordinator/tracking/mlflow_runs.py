"""Logs runs to MLflow: to a server's address, or to a folder on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coordinator.tracking import TrackedRun

EXPERIMENT = "fedap"
IDENTITY = "fedap.run"
"""Tag that identifies a run to resume."""


class MlflowTracker:
    """Logs runs to MLflow. place: a URI that MLflow accepts, or a path."""

    def __init__(self, place: str) -> None:
        if "://" not in place:
            place = Path(place).absolute().as_uri()
        if place.startswith("file:"):  # a folder suffices here; without this setting MLflow insists on a database
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow.tracking import MlflowClient

        self._client: Any = MlflowClient(place)

    def begin(self, name: str, identity: str, settings: Mapping[str, str]) -> TrackedRun:
        found = self._client.get_experiment_by_name(EXPERIMENT)
        experiment = self._client.create_experiment(EXPERIMENT) if found is None else found.experiment_id
        quoted = identity.replace("'", "_")
        runs: Sequence[Any] = self._client.search_runs([experiment], f"tags.`{IDENTITY}` = '{quoted}'", max_results=1)
        if runs:
            return MlflowRun(self._client, runs[0].info.run_id, dict(runs[0].data.metrics))
        made = self._client.create_run(experiment, run_name=name, tags={IDENTITY: quoted}).info.run_id
        for key, value in settings.items():
            self._client.log_param(made, key, value[:500])
        return MlflowRun(self._client, made, {})


class MlflowRun:
    """One run. Values logged before it was resumed are not logged twice."""

    def __init__(self, client: Any, run: str, logged: Mapping[str, float]) -> None:  # noqa: ANN401 - MLflow has no types
        self._client = client
        self._run = run
        self._steps = {key: max(one.step for one in client.get_metric_history(run, key)) for key in logged}

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if step > self._steps.get(name, -1):
                self._steps[name] = step
                self._client.log_metric(self._run, name, value, timestamp=int(1000 * time.time()), step=step)

    def close(self, *, ended: bool) -> None:
        if ended:
            self._client.set_terminated(self._run)
