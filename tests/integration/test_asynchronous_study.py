"""Claims about `fedap-lab asynchronous`: it runs what is missing, writes all its files, and says what is wrong."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from scripts.experiments.asynchronous.conditions import Trouble
from scripts.experiments.asynchronous.real_clock import run_real_study
from scripts.experiments.asynchronous.study import AsyncStudy, run_study
from scripts.lab import main
from tests.support.cohorts import run_command, small_run


def small_study(*ways: str) -> AsyncStudy:
    return AsyncStudy(runs=(small_run("fedavg"),), conditions=("slow",), ways=ways, trouble=Trouble(slower=3.0))


def suffixes(root: Path) -> set[str]:
    return {path.suffix for path in root.glob("asynchronous-*")}


def begun(said: io.StringIO) -> int:
    """How many runs were announced."""
    return sum(line.endswith(" …") for line in said.getvalue().splitlines())


def test_study_is_written_down_and_not_run_twice(tmp_path: Path) -> None:
    study = small_study("barrier", "deadline", "continuous")
    said = io.StringIO()
    first = run_study(study, tmp_path, jobs=2, console=Console(file=said))
    assert [curve.way for curve in first] == ["barrier", "deadline", "continuous"]
    assert suffixes(tmp_path) == {".csv", ".md", ".png", ".svg"}
    assert begun(said) == 3
    (told,) = tmp_path.glob("asynchronous-*.md")
    assert "to reach" in told.read_text()
    again = io.StringIO()
    second = run_study(study, tmp_path, jobs=2, console=Console(file=again))
    assert begun(again) == 0
    assert [curve.mean.tolist() for curve in second] == [curve.mean.tolist() for curve in first]


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [("--engine", "inline", "virtual"), ("--conditions", "slwo", "slow"), ("--slower", "0", "above 0")],
)
def test_wrong_options_end_in_one_line(option: str, value: str, hint: str, tmp_path: Path) -> None:
    outcome = run_command(main, "asynchronous", "--quick", option, value, "--out", str(tmp_path))
    assert outcome.is_one_clear_line, outcome
    assert hint in outcome.complaint


@pytest.mark.slow
def test_real_processes_with_a_slow_member_are_watched_on_the_wall_clock(tmp_path: Path) -> None:
    """Three rounds wait for three slow trainings, a second and a half in all, where nobody can be quicker than that."""
    study = AsyncStudy(runs=(small_run("fedap"),), conditions=("slow",), ways=("barrier",), trouble=Trouble(slower=5.0))
    said = io.StringIO()
    waiting, going_on = run_real_study(study, tmp_path, least_s=0.1, console=Console(file=said))
    assert (waiting.way, going_on.way) == ("barrier", "continuous")
    assert waiting.ended_s >= 1.5
    assert (waiting.updates, going_on.updates >= 9) == (9, True)
    assert suffixes(tmp_path) == {".csv", ".md", ".png", ".svg"}


@pytest.mark.slow
def test_quick_version_of_the_command_runs(tmp_path: Path) -> None:
    outcome = run_command(main, "asynchronous", "--quick", "--conditions", "lossy", "--out", str(tmp_path))
    assert outcome.code == 0, outcome
    assert "30 % of updates lost: to reach" in outcome.out.replace("\n", " ")
    assert suffixes(tmp_path) == {".csv", ".md", ".png", ".svg"}
