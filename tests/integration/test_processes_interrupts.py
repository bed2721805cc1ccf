"""Claims about a federation of processes that is cut short: nothing is left running, and the rest is run when asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.engines.processes.children import ChildFailed
from scripts.engines.processes.run import ProcessOptions, run_processes
from scripts.run.run_folder import RunFolder
from tests.support.cohorts import (
    clients_of,
    group_is_alive,
    lab_arguments,
    model_bits,
    run_small,
    small_run,
    wait_until,
)
from tests.support.lab import lab_process

ROUNDS = 12


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_cut_short_leaves_no_process_and_continues_where_it_was(number: signal.Signals, tmp_path: Path) -> None:
    """SIGINT goes to the group, as from a terminal, the others to the command alone. The second call takes over the
    rounds that the first had closed: its coordinator's log says that a run was resumed."""
    settings = small_run("fedbn", rounds=ROUNDS)
    arguments = lab_arguments(tmp_path / "out", "fedbn", rounds=ROUNDS, more=["--engine", "processes"])
    folder = RunFolder(tmp_path / "out", settings)
    with lab_process(*arguments, cwd=tmp_path, function="saving_every_round") as process:

        def has_rounds() -> bool:
            assert process.poll() is None, process.communicate()
            return folder.path.exists() and len(folder.rounds()) >= 2

        wait_until(has_rounds, "two rounds")
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        process.communicate(timeout=180)
        wait_until(lambda: not group_is_alive(process.pid), "the end of all processes")
    assert not folder.is_complete()
    run_processes(settings, clients_of(settings), ProcessOptions(root=tmp_path / "out", keep_federation=True))
    assert "run.resumed" in (folder.path / "federation" / "logs" / "coordinator.log").read_text()
    assert [record["round"] for record in folder.rounds()] == list(range(ROUNDS))
    assert model_bits(folder) == model_bits(run_small(tmp_path / "inline", settings))


def test_a_participant_that_dies_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    """Killed after the first round; the run ends at once, and a second call goes on."""
    settings = small_run("fedbn", rounds=ROUNDS)
    started: list[int] = []

    def kill_second(round_no: int, _accuracy: float | None) -> None:
        if round_no == 0:
            os.kill(started[2], signal.SIGKILL)

    def remember(pids: Sequence[int]) -> None:
        started.extend(pids)

    options = ProcessOptions(root=tmp_path, on_started=remember, on_round=kill_second)
    with pytest.raises(ChildFailed, match=r"c2 was killed by SIGKILL; its log .*c2\.log ends: .*round\.trained"):
        run_processes(settings, clients_of(settings), options)
    assert not any(is_running(pid) for pid in started)
    folder = run_processes(settings, clients_of(settings), ProcessOptions(root=tmp_path))
    assert folder.is_complete()


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_run_that_had_ended_is_reported_without_starting_anything(tmp_path: Path) -> None:
    """Interrupted between the last goodbye and the copying of models: rounds are written again out of the record."""
    settings = small_run("fedap", rounds=2)
    cohort = clients_of(settings)
    folder = run_processes(settings, cohort, ProcessOptions(root=tmp_path, keep_federation=True))
    told, bits = folder.rounds(), model_bits(folder)
    for path in folder.models(1).iterdir():
        path.unlink()
    folder.models(1).rmdir()

    def forbid(_pids: Sequence[int]) -> None:
        raise AssertionError("processes were started")

    again = run_processes(settings, cohort, ProcessOptions(root=tmp_path, on_started=forbid))
    assert again.rounds() == told
    assert model_bits(again) == bits
