"""Claims about reading a comparison from text, and the model each kind of input gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from scripts.experiments.comparison import Comparison, default_model
from scripts.experiments.sweep import SweepOptions
from scripts.run.settings import CohortSettings
from tests.support.cohorts import small_run


def parsed(algorithms: str, seeds: str = "0") -> Comparison:
    return Comparison.parse(small_run("base"), algorithms=algorithms, seeds=seeds)


def test_every_seed_runs_every_algorithm_on_otherwise_equal_settings() -> None:
    runs = parsed("fedap, fedbn,", "3,1").runs
    assert [(run.algorithm, run.seed) for run in runs] == [("fedap", 3), ("fedbn", 3), ("fedap", 1), ("fedbn", 1)]
    assert len({(run.cohort.model_dump_json(), run.model, run.sgd.learning_rate) for run in runs}) == 1


def test_options_follow_the_name_and_a_factory_keeps_its_colon() -> None:
    runs = parsed("fedap:self_weight=0.3:max_peer_weight=0.2,fedap_core.strategies.fedavg:FedAvg:equal=yes").runs
    assert runs[0].options == {"self_weight": "0.3", "max_peer_weight": "0.2"}
    assert (runs[1].algorithm, runs[1].options) == ("fedap_core.strategies.fedavg:FedAvg", {"equal": "yes"})
    assert runs[1].strategy().equal


def test_identity_of_a_comparison_contains_every_run_and_the_rounds() -> None:
    assert parsed("fedap,fedbn").identity == parsed("fedap,fedbn").identity
    longer = Comparison.parse(small_run("base", rounds=9), algorithms="fedap,fedbn", seeds="0")
    assert len({parsed(text).identity for text in ("fedap,fedbn", "fedap", "fedbn,fedap")} | {longer.identity}) == 4


@pytest.mark.parametrize(
    ("shape", "model"), [("1x28x28", "lenet5"), ("3x62x80", "lenet5"), ("1x63x63", "alexnet"), ("9x128", "har-cnn")]
)
def test_input_decides_the_default_model(shape: str, model: str) -> None:
    options = {"samples": "4", "shape": shape}
    assert default_model(CohortSettings(data="synthetic", data_options=options)) == model


@pytest.mark.parametrize("field", ["jobs", "workers"])
def test_fewer_than_one_process_is_refused(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"{field}: got 0"):
        SweepOptions(root=Path(), jobs=int(field != "jobs"), workers=int(field != "workers"))


@pytest.mark.parametrize("below", [False, True])
def test_results_cannot_go_where_a_file_is(below: bool, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.touch()
    with pytest.raises(InvalidInput, match=f"out: got {file}, expected a folder"):
        SweepOptions(root=file / "runs" if below else file)
