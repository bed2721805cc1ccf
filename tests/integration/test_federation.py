"""The whole system as its users start it: one coordinator process, one process per participant, real sockets.

Whatever the algorithm, every participant ends with the very bits that the inline engine computes for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.experiments.settings import RunSettings
from tests.support.cohorts import small_run, wait_until
from tests.support.players import Reference, final_bits, players, run_reference
from tests.support.processes import Process, config_file

EIGHT = ("base", "fedavg", "fedprox", "fedper", "fedbn", "fedap", "d-fedap", "f-fedap")


def watch_run(algorithm: str) -> RunSettings:
    """Ten people with a smartwatch, four rounds."""
    cohort = {"data": "watch", "data_options": {}, "partition": "site"}
    return small_run(algorithm, rounds=4, cohort=cohort, model="har-cnn")


def run_file(folder: Path, reference: Reference) -> Path:
    """A run.toml under which the network computes what the inline run did."""
    settings = reference.settings
    return config_file(
        folder / "run.toml",
        {
            "run": "whole",
            "folder": str(folder / "run"),
            "initial": str(reference.initial),
            "rounds": settings.rounds,
            "seed": settings.seed,
            "algorithm": {"name": settings.algorithm},
            "anchor": {} if reference.anchor is None else {"file": str(reference.anchor)},
            "training": {"learning_rate": settings.learning_rate, "batch_size": settings.batch_size},
            "members": {"names": reference.names},
            "network": {"endpoint": "tcp://127.0.0.1:*"},
        },
    )


def require_same_models(folder: Path, settings: RunSettings) -> None:
    reference = run_reference(folder / "inline", settings)
    coordinator = Process("serve", "--config", str(run_file(folder, reference)), log=folder / "coordinator.log")
    try:
        with players(folder, reference, coordinator.ready()) as made:
            wait_until(lambda: all(one.ended() is not None for one in made.values()), "the run to end", deadline_s=400)
            assert {name: one.ended() for name, one in made.items()} == dict.fromkeys(made, 0)
        assert coordinator.wait() == 0
    finally:
        coordinator.close()
    assert final_bits(made) == reference.bits


@pytest.mark.parametrize("algorithm", ["fedap", "f-fedap"])
def test_a_federation_of_processes_ends_with_the_inline_engines_models(algorithm: str, tmp_path: Path) -> None:
    require_same_models(tmp_path, small_run(algorithm))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", EIGHT)
def test_ten_people_with_a_watch_end_with_the_inline_engines_models(algorithm: str, tmp_path: Path) -> None:
    require_same_models(tmp_path, watch_run(algorithm))
