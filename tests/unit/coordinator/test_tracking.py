"""Claims about experiment trackers: a run's figures arrive by round, once, and a tracker that fails stops nobody."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from coordinator.config import make_config
from coordinator.decisions.state import State
from coordinator.observers import Observers, make_observers
from coordinator.tracking import figure_name, make_tracker
from coordinator.tracking.mlflow_runs import EXPERIMENT
from fedap_core.errors import InvalidInput
from scripts.run.records import ClientScore, RoundRecord
from scripts.run.run_folder import RunFolder
from scripts.run.settings import CohortSettings, RunSettings
from scripts.run.tracking import LabTracking, figures_of
from tests.support.finished_runs import finish
from tests.unit.coordinator.test_progress import closed, opened, score, update

TOLD = (
    (0.0, opened(0)),
    (1.0, update("a", 0)),
    (2.0, closed(0)),
    (2.0, opened(1)),
    (3.0, update("a", 1, score(6))),
    (3.0, update("b", 1, score(8))),
    (5.0, closed(1)),
)
"""In the second round a and b report on the first one's model: 0.6 and 0.8. Rounds take 2 and 3 s."""


def observe(folder: Path, *trackers: str) -> list[Any]:
    """Tell a run's observers these facts; returns the log."""
    fields = {"run": "wards", "folder": folder, "initial": folder / "i", "track": trackers}
    with structlog.testing.capture_logs() as lines:
        observers = Observers([one for one in make_observers(make_config(fields)) if "Tracking" in type(one).__name__])
        for time_s, fact in TOLD:
            observers.on_facts([(fact, time_s)], State())
        observers.close()
    return lines


def scalars(folder: Path) -> Mapping[str, list[tuple[int, float]]]:
    found = EventAccumulator(str(folder))
    found.Reload()
    return {tag: [(one.step, round(one.value, 6)) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_a_run_is_logged_to_tensorboard_by_round(tmp_path: Path) -> None:
    observe(tmp_path, f"tensorboard:{tmp_path / 'board'}")
    found = scalars(tmp_path / "board" / "wards")
    assert (found["accuracy/a"], found["accuracy/b"]) == ([(1, 0.6)], [(1, 0.8)])
    assert found["accuracy_mean"] == [(1, 0.7)]
    assert found["round_seconds"] == [(0, 2.0), (1, 3.0)]
    assert "rounds = 100" in (tmp_path / "board" / "wards" / "settings.txt").read_text()


def test_a_run_is_logged_to_mlflow_once_though_it_is_resumed(tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    place = f"mlflow:{tmp_path / 'mlruns'}"
    assert observe(tmp_path, place) == []
    assert observe(tmp_path, place) == []
    client = MlflowClient((tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert [run.info.run_name for run in runs] == ["wards"]
    assert runs[0].data.params["algorithm"] == "fedap"
    history = client.get_metric_history(runs[0].info.run_id, "accuracy/b")
    assert [(one.step, one.value) for one in history] == [(1, 0.8)]


def test_a_tracker_that_fails_is_logged_and_given_up(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    lines = observe(tmp_path, f"tensorboard:{tmp_path / 'taken'}")
    assert [line["event"] for line in lines] == ["tracker.given_up"]


@pytest.mark.parametrize("text", ["wandb:x", "mlflow", "mlflow:", "tensorboard"])
def test_what_is_no_tracker_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match="mlflow:URI or tensorboard:FOLDER"):
        observe(tmp_path, text)


def test_a_missing_extra_is_reported_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(InvalidInput, match=r"pip install 'fedap\[mlflow\]'"):
        observe(tmp_path, "mlflow:runs")
    with pytest.raises(InvalidInput, match=r"pip install 'fedap\[tensorboard\]'"):
        make_tracker("tensorboard:runs")


def test_the_lab_logs_finished_rounds_and_adds_only_what_is_new(tmp_path: Path) -> None:
    cohort = CohortSettings(data="synthetic", clients=2, partition="site")
    run = RunSettings(cohort=cohort, model="lenet5", algorithm="fedap", rounds=3)
    finish(tmp_path, [run], lambda _run, round_no, client: 0.5 + 0.1 * round_no + 0.05 * client)
    told: list[str] = []
    tracking = LabTracking([f"tensorboard:{tmp_path / 'board'}"], told.append)
    folder = RunFolder(tmp_path, run)
    tracking.update(folder)
    tracking.update(folder)
    tracking.close()
    found = scalars(tmp_path / "board" / figure_name(folder.path.name))
    assert found["accuracy/test/c02"] == [(1, 0.55), (2, 0.65), (3, 0.75)]
    assert found["accuracy_lowest/test"] == [(1, 0.5), (2, 0.6), (3, 0.7)]
    assert told == []


def test_figures_of_a_round_leave_out_what_nobody_measured() -> None:
    record = RoundRecord(number=0, splits={"test": (ClientScore(correct=1, samples=2), None)}, train_loss=(1.0, 3.0))
    assert figures_of(record, ["a", "b c"]) == {
        "accuracy/test/a": 0.5,
        "accuracy_mean/test": 0.5,
        "accuracy_lowest/test": 0.5,
        "train_loss_mean": 2.0,
    }
    assert figure_name("accuracy", "b c/ü") == "accuracy/b_c_"
