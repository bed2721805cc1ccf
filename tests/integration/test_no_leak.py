"""On the real data sets: no raw time step, recording or patient on two sides of a split, nor in two clients.

The laws are proved for all inputs in tests/property; here the whole way from a source to a cohort is walked.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedap_core.arrays import IndexArray
from scripts.run.cohort import Cohort, make_cohort
from scripts.run.settings import CohortSettings
from tests.support.datafiles import real_data


def _steps(cohort: Cohort, indices: IndexArray) -> set[tuple[int, int]]:
    """Every (recording, raw time step) that the chosen windows cover."""
    assert cohort.data.span is not None
    groups, spans = cohort.data.group[indices], cohort.data.span[indices]
    return {
        (int(group), step) for group, (start, stop) in zip(groups, spans, strict=True) for step in range(start, stop)
    }


def _assert_no_step_twice(cohort: Cohort) -> None:
    sides = [_steps(cohort, side) for client in cohort.clients for side in client.splits.values()]
    assert sum(len(side) for side in sides) == len(set().union(*sides))


@pytest.mark.parametrize("protocol", ["paper", "reference"])
def test_no_raw_time_step_of_the_watch_is_on_two_sides(protocol: str) -> None:
    settings = {"data": "watch", "partition": "site", "protocol": protocol, "min_samples": 16}
    _assert_no_step_twice(make_cohort(CohortSettings.model_validate(settings), 0))


@pytest.mark.parametrize("partition", ["site", "dirichlet-pairs"])
def test_no_half_window_of_har_is_on_two_sides(partition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By content: windows overlap by half, so two sides that shared a time step would share a half-window's bytes."""
    monkeypatch.setenv("FEDAP_DATA", str(real_data("uci_har.npz")))
    settings = {"data": "har", "partition": partition, "clients": 20}
    cohort = make_cohort(CohortSettings.model_validate(settings), 0)
    for client in cohort.clients:
        train, test = (_halves(cohort.data.x[client.splits[side]]) for side in ("train", "test"))
        assert not train & test


def _halves(windows: np.ndarray) -> set[bytes]:
    middle = windows.shape[2] // 2
    return {half.tobytes() for window in windows for half in (window[:, :middle], window[:, middle:])}


def test_no_chest_patient_is_on_two_sides_or_in_two_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDAP_DATA", str(real_data("chest_xray_64.npz")))
    cohort = make_cohort(CohortSettings(data="chest"), 0)
    sides = [set(cohort.data.group[side].tolist()) for c in cohort.clients for side in c.splits.values()]
    assert all(not one & other for one, other in itertools.combinations(sides, 2))
