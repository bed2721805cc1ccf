"""Claims about runs that go on: from a shorter one, from a cut one, never twice, and always with the same bits."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from pathlib import Path

import pytest

from scripts.engines import inline
from scripts.run.run_folder import RunFolder
from scripts.run.settings import saved_settings
from tests.support.cohorts import (
    group_is_alive,
    lab_arguments,
    model_bits,
    numbers_of,
    rounds_run,
    run_small,
    small_run,
    wait_until,
)
from tests.support.lab import lab_process


@pytest.mark.parametrize("algorithm", ["fedap", "fedavg"])
def test_longer_run_continues_from_a_shorter_one_and_equals_a_run_made_at_once(algorithm: str, tmp_path: Path) -> None:
    longer = small_run(algorithm, rounds=4)
    assert rounds_run(tmp_path / "two steps", small_run(algorithm, rounds=2)) == [0, 1]
    assert rounds_run(tmp_path / "two steps", longer) == [2, 3]
    at_once = run_small(tmp_path / "at once", longer)
    in_steps = RunFolder(tmp_path / "two steps", longer)
    assert model_bits(in_steps) == model_bits(at_once)
    assert numbers_of(in_steps) == numbers_of(at_once)


def test_saving_after_every_round_changes_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of clients that are next evaluated without being trained in between."""
    settings = small_run("fedavg", rounds=6, participation=0.34, options={"reestimate": True})
    at_once = run_small(tmp_path / "at once", settings)
    monkeypatch.setattr(inline, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(inline, "SAVING_SHARE", math.inf)
    saved = run_small(tmp_path / "saved", settings)
    assert numbers_of(saved) == numbers_of(at_once)
    assert model_bits(saved) == model_bits(at_once)


def test_finished_run_is_never_run_again(tmp_path: Path) -> None:
    settings = small_run("fedap")
    folder = run_small(tmp_path, settings)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert rounds_run(tmp_path, settings) == []
    assert rounds_run(tmp_path, small_run("fedap", rounds=2)) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
    assert RunFolder(tmp_path, small_run("fedap", rounds=2)).summary().last == folder.summary().curve[1][1]


def test_run_whose_schedule_depends_on_the_rounds_restarts_when_longer(tmp_path: Path) -> None:
    assert rounds_run(tmp_path, small_run("f-fedap", rounds=2)) == [0, 1]
    assert rounds_run(tmp_path, small_run("f-fedap", rounds=4)) == [0, 1, 2, 3]


def test_round_that_was_written_only_half_is_forgotten_and_run_again(tmp_path: Path) -> None:
    """Cut down to what a kill leaves after round 1's models: line 2 whole, line 3 torn, no models of either."""
    settings = small_run("fedap", rounds=4)
    folder = run_small(tmp_path / "cut", small_run("fedap", rounds=2))
    kept = shutil.copytree(folder.models(1), tmp_path / "round 1")
    whole = run_small(tmp_path / "whole", settings)
    run_small(tmp_path / "cut", settings)
    shutil.rmtree(folder.models(3))
    kept.rename(folder.models(1))
    lines = folder.path / "rounds.jsonl"
    lines.write_text(lines.read_text()[:-20])
    assert rounds_run(tmp_path / "cut", settings) == [2, 3]
    assert model_bits(RunFolder(tmp_path / "cut", settings)) == model_bits(whole)
    assert numbers_of(RunFolder(tmp_path / "cut", settings)) == numbers_of(whole)


def test_run_killed_between_its_last_line_and_its_last_models_still_gets_its_models(tmp_path: Path) -> None:
    settings = small_run("fedap")
    folder = run_small(tmp_path, settings)
    bits = model_bits(folder)
    shutil.rmtree(folder.models(2))
    assert rounds_run(tmp_path, settings) == [0, 1, 2]
    assert model_bits(folder) == bits


def test_killed_lab_leaves_no_process_and_continues_to_the_bits_of_an_undisturbed_run(tmp_path: Path) -> None:
    """SIGKILL reaches the command alone: the job it started must notice by itself, then let the next command go on."""
    arguments = lab_arguments(tmp_path / "killed", "fedap", rounds=25, more=["--workers", "2"])
    with lab_process(*arguments, cwd=tmp_path, function="saving_every_round") as process:

        def has_saved_some() -> bool:
            assert process.poll() is None, process.communicate()
            models = len(list(tmp_path.glob("killed/synthetic-fedap-*/models/round-*/*.safetensors")))
            lines = [path.read_text().count("\n") for path in tmp_path.glob("killed/synthetic-fedap-*/rounds.jsonl")]
            return models >= 3 and max(lines, default=0) >= 2

        wait_until(has_saved_some, "a saved round")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        wait_until(lambda: not group_is_alive(process.pid), "the end of the killed command's jobs")
    (path,) = tmp_path.glob("killed/synthetic-fedap-*")
    settings = saved_settings(json.loads((path / "settings.json").read_text())["settings"])
    folder = RunFolder(tmp_path / "killed", settings)
    saved = folder.saved_round()
    assert folder.path == path
    assert 0 <= saved < 24, "killed too late to prove anything"
    assert rounds_run(tmp_path / "killed", settings) == list(range(saved + 1, 25))
    undisturbed = run_small(tmp_path / "undisturbed", settings)
    assert model_bits(folder) == model_bits(undisturbed)
    assert numbers_of(folder) == numbers_of(undisturbed)


def test_killed_job_is_reported_with_its_signal_and_what_needs_less_memory(tmp_path: Path) -> None:
    """As a system does that runs out of memory: the command remains, its job is killed."""
    arguments = lab_arguments(tmp_path / "killed", "fedap", rounds=200, more=["--workers", "1"])
    with lab_process(*arguments, cwd=tmp_path) as process:

        def jobs() -> list[int]:
            assert process.poll() is None, process.communicate()
            running = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            return [int(one) for one in running if any(tmp_path.glob("killed/synthetic-fedap-*/rounds.jsonl"))]

        wait_until(lambda: bool(jobs()), "a job with a finished round")
        os.kill(jobs()[0], signal.SIGKILL)
        _, complaint = process.communicate()
    assert process.returncode == 2
    assert "run fedap seed 0" in complaint
    assert "was killed by SIGKILL" in complaint
    assert "--memory" in complaint
    assert len(complaint.splitlines()) == 1
