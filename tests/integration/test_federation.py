"""The whole system as its users start it: one coordinator process, one process per participant, real sockets.

Whatever the algorithm, every participant ends with the very bits that the inline engine computes for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.run.settings import RunSettings
from tests.support.cohorts import BOTH_SIZES, MODELS, small_run
from tests.support.players import final_bits, run_reference
from tests.support.run_files import coordinator_file
from tests.support.whole_runs import run_to_its_end

PATIENT = {"heartbeat_s": 10.0, "dead_after_s": 60.0, "linger_s": 60.0}
"""The coordinator's own defaults: on a busy machine nobody is given up while ten processes start."""

EIGHT = ("base", "fedavg", "fedprox", "fedper", "fedbn", "fedap", "d-fedap", "f-fedap")


def watch_run(algorithm: str) -> RunSettings:
    """Ten people with a smartwatch, four rounds."""
    cohort = {"data": "watch", "data_options": {}, "partition": "site"}
    return small_run(algorithm, rounds=4, cohort=cohort, model="har-cnn")


def require_same_models(folder: Path, settings: RunSettings) -> None:
    reference = run_reference(folder / "inline", settings)
    config = coordinator_file(folder, reference, pace=PATIENT)
    made = run_to_its_end(folder, reference, config, deadline_s=400)
    assert final_bits(made) == reference.bits


@pytest.mark.parametrize("travels", BOTH_SIZES)
@pytest.mark.parametrize("algorithm", ["fedap", "f-fedap"])
def test_a_federation_of_processes_ends_with_the_inline_engines_models(
    algorithm: str, travels: str, tmp_path: Path
) -> None:
    require_same_models(tmp_path, small_run(algorithm, model=MODELS[travels]))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", EIGHT)
def test_ten_people_with_a_watch_end_with_the_inline_engines_models(algorithm: str, tmp_path: Path) -> None:
    require_same_models(tmp_path, watch_run(algorithm))
