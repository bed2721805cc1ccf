"""The run clock counts waking time: what a life counted before, and nothing of a long hold-up."""

from __future__ import annotations

from coordinator.decisions.run_clock import RunClock


class Wall:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


def test_clock_continues_where_the_last_process_stopped() -> None:
    wall = Wall()
    clock = RunClock(wall, ran_s=50.0, stall_s=5.0)
    wall.at += 2.0
    assert clock.now() == 52.0


def test_waiting_as_long_as_was_meant_counts() -> None:
    wall = Wall()
    clock = RunClock(wall, ran_s=0.0, stall_s=5.0)
    wall.at += 60.0
    assert clock.forgive_stall(meant_s=60.0) == 0.0
    wall.at += 60.0
    assert clock.forgive_stall(meant_s=None) == 0.0
    assert clock.now() == 120.0


def test_a_short_hold_up_counts_and_a_long_one_does_not() -> None:
    """Meant to wait 1 s: 4 s more count, 100 s more do not, of which only the 1 s that was meant remains."""
    wall = Wall()
    clock = RunClock(wall, ran_s=0.0, stall_s=5.0)
    wall.at += 5.0
    assert clock.forgive_stall(meant_s=1.0) == 0.0
    assert clock.now() == 5.0
    wall.at += 101.0
    assert clock.forgive_stall(meant_s=1.0) == 100.0
    assert clock.now() == 6.0


def test_what_was_told_is_never_taken_back() -> None:
    """In the midst of a hold-up of 100 s somebody was told that it is second 40: only the rest is forgiven."""
    wall = Wall()
    clock = RunClock(wall, ran_s=0.0, stall_s=5.0)
    wall.at += 40.0
    assert clock.now() == 40.0
    wall.at += 60.0
    assert clock.forgive_stall(meant_s=0.0) == 60.0
    assert clock.now() == 40.0
    wall.at += 1.0
    assert clock.now() == 41.0
