"""Claims about Ctrl-C and about runs that several processes want at once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from scripts.experiments.sweep import SweepOptions, run_sweep
from tests.support.cohorts import (
    group_is_alive,
    lab_arguments,
    model_bits,
    run_small,
    small_run,
    wait_until,
)
from tests.support.lab import lab_process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_ends_jobs_and_workers_without_a_trace(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """Two jobs with two workers each, amid their rounds. SIGINT goes to the group, as from a terminal, SIGTERM to the
    command alone, as from `kill`."""
    arguments = lab_arguments(
        tmp_path / "out", "fedavg,fedbn", rounds=5000, more=["--jobs", "2", "--workers", "2", "--no-keep-models"]
    )
    with lab_process(*arguments, cwd=tmp_path, function="saving_every_round") as process:

        def both_are_running() -> bool:
            assert process.poll() is None, process.communicate()
            lines = [path.read_text().count("\n") for path in tmp_path.glob("out/synthetic-*/rounds.jsonl")]
            return len(lines) == 2 and min(lines) >= 1

        wait_until(both_are_running, "both runs")
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, complaint = process.communicate(timeout=180)
        wait_until(lambda: not group_is_alive(process.pid), "the end of all jobs and workers")
    assert process.returncode == code, complaint
    assert complaint.splitlines() in ([], ["interrupted; the same command resumes the runs"])


def test_two_jobs_that_need_the_same_warm_up_share_it(tmp_path: Path) -> None:
    """Both start at once; whoever comes second waits for the warm-up's folder and finds it finished."""
    anchor = {"kind": "warmup", "rounds": 3}
    runs = [small_run(algorithm, rounds=4, anchor=anchor) for algorithm in ("fedap", "d-fedap")]
    run_sweep(runs, SweepOptions(root=tmp_path / "together", jobs=2), Console(quiet=True))
    (warm,) = (tmp_path / "together" / "warmup").glob("*/synthetic-fedavg-*")
    assert len((warm / "rounds.jsonl").read_text().splitlines()) == 3
    for run in runs:
        apart = run_small(tmp_path / "apart", run)
        assert model_bits(apart) == model_bits(run_small(tmp_path / "together", run))
