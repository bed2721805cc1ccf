"""Claims about child processes: which signals reach them, and what is said when one dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from scripts.engines.base import EngineOptions
from scripts.engines.inline import run_inline
from scripts.run.forked import FORK, signals_held, unwind_on_sigterm
from tests.support.cohorts import clients_of, rounds_run, small_run


@pytest.fixture
def received() -> Iterator[list[int]]:
    """The signals that reached this process."""
    numbers: list[int] = []
    before = {
        number: signal.signal(number, lambda received, _frame: numbers.append(received))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_that_is_held_arrives_afterwards(number: signal.Signals, received: list[int]) -> None:
    with signals_held():
        os.kill(os.getpid(), number)
        assert received == []
    assert received == [number]


def test_child_started_under_the_hold_is_deaf_to_interrupts_and_heeds_termination() -> None:
    """The interrupt is sent before the question, so an answer proves that it did nothing."""
    ours, theirs = FORK.Pipe()

    def answer() -> None:
        unwind_on_sigterm()
        while True:
            theirs.send_bytes(theirs.recv_bytes())

    child = FORK.Process(target=answer, daemon=True)
    with signals_held():
        child.start()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGINT)
    ours.send_bytes(b"still there?")
    assert ours.poll(timeout=60)
    assert ours.recv_bytes() == b"still there?"
    child.terminate()
    child.join(timeout=60)
    assert child.exitcode == 143


def in_two_threads() -> None:
    """A tensor operation large enough to be shared out."""
    torch.set_num_threads(2)
    assert torch.ones(1_000_000).relu().sum() == 1_000_000


def test_child_of_a_process_that_has_used_torch_can_use_it_too() -> None:
    """As in a notebook that trains something before it calls the lab. The threads that GNU OpenMP keeps are lost in a
    fork, and it would wait for them without end."""
    before = torch.get_num_threads()
    try:
        in_two_threads()
        child = FORK.Process(target=in_two_threads, daemon=True)
        child.start()
        child.join(timeout=60)
        assert child.exitcode == 0
        in_two_threads()
    finally:
        torch.set_num_threads(before)


def test_worker_that_dies_is_named_and_the_run_continues_when_called_again(tmp_path: Path) -> None:
    settings = small_run("fedavg", rounds=2)

    def kill_one(_round_no: int, _accuracy: float | None) -> None:
        victim = min(multiprocessing.active_children(), key=lambda child: child.name)
        victim.kill()
        victim.join()

    options = EngineOptions(root=tmp_path, workers=2, on_round=kill_one)
    with pytest.raises(RuntimeError, match="worker 0 was killed by SIGKILL during 'train'"):
        run_inline(settings, clients_of(settings), options)
    assert multiprocessing.active_children() == []
    assert rounds_run(tmp_path, settings) == [0, 1]
