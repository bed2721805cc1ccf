"""Claims about processes that do rounds when told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.bench.workers import Gate, WorkerProcesses, loop_of


def counting(path: Path) -> Callable[[], Callable[[], None]]:
    """A round that leaves a line."""

    def make() -> Callable[[], None]:
        path.write_text("set up\n")

        def one_round() -> None:
            with path.open("a") as file:
                file.write("round\n")

        return one_round

    return make


def test_rounds_are_done_by_everybody_before_the_time_is_reported(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    with WorkerProcesses([loop_of(counting(path)) for path in files]) as workers:
        assert [path.read_text() for path in files] == ["set up\n"] * 2
        assert workers.seconds_per_round(3) > 0.0
        assert [path.read_text().count("round") for path in files] == [3, 3]
        workers.seconds_per_round(1)
        assert [path.read_text().count("round") for path in files] == [4, 4]


def test_loop_of_somebody_else_is_held_where_an_order_ends(tmp_path: Path) -> None:
    """The first round comes before the first order: it warms up."""
    file = tmp_path / "rounds"

    def body(gate: Gate) -> None:
        for number in range(1000):
            file.write_text(str(number + 1))
            gate.passed()

    with WorkerProcesses([body]) as workers:
        assert file.read_text() == "1"
        workers.seconds_per_round(2)
        assert file.read_text() == "3"


def test_process_that_dies_is_an_error_with_its_code() -> None:
    def body(gate: Gate) -> None:
        gate.wait()
        os._exit(7)

    with pytest.raises(RuntimeError, match="code 7"), WorkerProcesses([body]) as workers:
        workers.seconds_per_round(1)


def test_crew_leaves_nobody_behind(tmp_path: Path) -> None:
    with WorkerProcesses([loop_of(counting(tmp_path / "a"))]) as workers:
        (pid,) = workers.pids
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()
