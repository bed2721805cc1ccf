"""Claims about validation samples in the lab: whole patients are held back, and a client that has too few of them takes
part without, as a participant does.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from participant.data.base import DataOptions
from participant.training.home_data import HomeData
from scripts.engines.base import EngineOptions
from scripts.engines.continuous import run_virtual
from scripts.engines.processes.run import ProcessOptions, run_processes
from scripts.run.clock_settings import AsyncSettings, ClockSettings
from scripts.run.settings import RunSettings
from tests.support.cohorts import clients_of, run_small, small_run


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> RunSettings:
    """Two sites with one patient on either side of train and test, and two with many."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(4), 80)
    patient = np.where(site % 2 == 0, site * 1000 + np.arange(320) % 2, np.arange(320))
    path = tmp_path_factory.mktemp("data") / "patients.npz"
    x = rng.integers(0, 256, (320, 1, 16, 16), dtype=np.uint8)
    np.savez(path, allow_pickle=False, x=x, y=rng.integers(0, 2, 320), site=site, patient=patient)
    cohort = {"data": str(path), "data_options": {}, "partition": "site", "validation": 0.2}
    return small_run("fedap", rounds=2, cohort=cohort)


def test_a_client_of_one_training_patient_has_no_validation_samples(settings: RunSettings) -> None:
    held = {client.name: "validation" in client.splits for client in clients_of(settings).clients}
    assert held == {"0": False, "1": True, "2": False, "3": True}


@pytest.mark.parametrize("site", ["0", "1"])
def test_a_participant_with_the_same_data_divides_them_alike(site: str, settings: RunSettings, tmp_path: Path) -> None:
    cohort = clients_of(settings)
    (client,) = [client for client in cohort.clients if client.name == site]
    mine = np.sort(np.concatenate(list(client.splits.values())))
    data = cohort.data.take(mine)
    np.savez(tmp_path / "mine.npz", allow_pickle=False, x=data.x, y=data.y, patient=data.group)
    home = HomeData.load(str(tmp_path / "mine.npz"), DataOptions())
    parts = home.split(protocol="paper", validation=0.2, seed=settings.seed, name=site)
    assert {name: mine[places].tolist() for name, places in parts.items()} == {
        name: places.tolist() for name, places in client.splits.items()
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_only_clients_with_validation_samples_are_scored_on_them(
    workers: int, settings: RunSettings, tmp_path: Path
) -> None:
    for record in run_small(tmp_path, settings, workers=workers).records():
        assert known(record.splits["validation"]) == [False, True, False, True]
        assert known(record.scores) == [True] * 4


def test_with_partial_participation_too(settings: RunSettings, tmp_path: Path) -> None:
    half = settings.model_copy(update={"participation": 0.5, "rounds": 4})
    for record in run_small(tmp_path, half).records():
        validated, tested = known(record.splits["validation"]), known(record.scores)
        assert validated == [False, tested[1], False, tested[3]]


def test_a_real_federation_records_the_same_scores(settings: RunSettings, tmp_path: Path) -> None:
    inline = run_small(tmp_path / "inline", settings).records()
    real = run_processes(settings, clients_of(settings), ProcessOptions(root=tmp_path / "real")).records()
    assert [record.splits for record in real] == [record.splits for record in inline]


def test_under_a_virtual_clock_nobody_needs_validation_samples(settings: RunSettings, tmp_path: Path) -> None:
    cohort = clients_of(settings)
    asynchronous = AsyncSettings(run=settings, clock=ClockSettings())
    last = run_virtual(asynchronous, cohort, EngineOptions(root=tmp_path, keep_models=False)).records()[-1]
    assert known(last.splits["validation"]) == [False, True, False, True]
    assert known(last.scores) == [True] * 4


def known(scores: tuple[object, ...]) -> list[bool]:
    return [score is not None for score in scores]
