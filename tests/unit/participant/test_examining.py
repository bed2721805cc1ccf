"""Claims about judging delivered models: beside training or before it, the same bits, and only where a core is free."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from participant.training.examining import Examiner
from protocol.messages import Train, Update
from tests.unit.participant.test_home_run import INITIAL, bits, opened, order, plan, shared, trained

CORES = os.sched_getaffinity(0)
needs_two_cores = pytest.mark.skipif(len(CORES) < 2, reason="judging beside training takes a second core")


@pytest.fixture
def one_core() -> Iterator[None]:
    os.sched_setaffinity(0, {min(CORES)})
    yield
    os.sched_setaffinity(0, CORES)


def updates_of(folder: Path, *orders: Train, beside: bool, warmup_rounds: int = 0) -> list[Update]:
    (folder / "state").mkdir(parents=True)
    what = plan(anchor="warmup", warmup_rounds=warmup_rounds) if warmup_rounds else plan()
    run = opened(folder, what, beside=beside)
    assert run._examiner.is_beside == beside
    updates = [trained(run, one) for one in orders]
    run.close()
    return updates


@needs_two_cores
def test_numbers_are_the_same_beside_training_and_before_it(tmp_path: Path) -> None:
    """Warm-up and the run proper, each with a model of its own; two of the four deliver the result of a round."""
    everything, start = shared(INITIAL, "fedavg"), shared(INITIAL)
    orders = [order(round_no, everything, phase="warmup") for round_no in (0, 1)]
    orders += [order(round_no, start) for round_no in (2, 3)]
    before, beside = (updates_of(tmp_path / str(flag), *orders, beside=flag, warmup_rounds=2) for flag in (False, True))
    assert [len(update.scores) for update in beside] == [0, 1, 0, 1]
    assert [update.scores for update in beside] == [update.scores for update in before]
    assert [bits(update.weights) for update in beside] == [bits(update.weights) for update in before]


@needs_two_cores
def test_round_given_up_leaves_the_next_judgement_untouched(tmp_path: Path) -> None:
    start = shared(INITIAL)
    undisturbed = updates_of(tmp_path / "whole", order(0, start), order(1, start), beside=True)[-1]
    (tmp_path / "stopped" / "state").mkdir(parents=True)
    run = opened(tmp_path / "stopped", beside=True)
    trained(run, order(0, start))
    assert run.train(order(1, start), lambda: True) is None
    again = trained(run, order(1, start))
    assert (again.scores, bits(again.weights)) == (undisturbed.scores, bits(undisturbed.weights))
    run.close()


@needs_two_cores
def test_evaluation_runs_in_parallel_only_where_training_leaves_enough_cores() -> None:
    assert Examiner(["test"], threads=1, beside=True).is_beside
    assert not Examiner(["test"], threads=len(CORES), beside=True).is_beside
    assert not Examiner(["test"], threads=1, beside=False).is_beside


def test_on_one_core_nothing_runs_in_parallel(one_core: None) -> None:
    assert not Examiner(["test"], threads=1, beside=True).is_beside
