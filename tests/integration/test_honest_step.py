"""How far honest updates go: measured where the initial model is made, noted in its file, used by the coordinator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coordinator.cli import main as coordinator
from coordinator.config import make_config
from coordinator.record.model_forms import ModelFile
from coordinator.run_plan import make_plan, make_rules, with_measured_step
from fedap_core.honest_step import NOTE, SLACK, MeasuredStep
from participant.cli import main as participant
from tests.support.cohorts import run_command
from tests.support.federation import fields

SMALL = ("--data", "synthetic", "--data-option", "samples=60", "--model", "lenet5")


@pytest.fixture(scope="module")
def initial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("initial") / "initial.safetensors"
    made = run_command(participant, "init", *SMALL, "--out", str(path), "--measure-step")
    assert made.code == 0
    assert "lengths will be admitted" in made.out
    return path


def test_the_measured_step_bounds_updates_where_the_configuration_leaves_it_open(initial: Path, tmp_path: Path) -> None:
    file = ModelFile(initial)
    measured = MeasuredStep.noted(file.notes)
    assert measured is not None
    assert 0.0 < measured.lengths < 1.0
    usual, ten_rounds = SLACK * measured.lengths, SLACK * (1 / (1 - 0.9)) * measured.lengths
    for algorithm, admission, most in (
        ("fedap", {}, usual),
        ("fedap", {"max_step": 3.0}, 3.0),
        ("fedap-plus", {}, ten_rounds),
        ("fedavgm", {}, ten_rounds),
        ("fedadam", {}, usual),
    ):
        config = make_config({**fields(tmp_path / "run", initial, algorithm=algorithm), "admission": admission})
        plan = make_plan(config, file.spec)
        rules = make_rules(with_measured_step(config, plan, file), file.spec, None)
        assert rules.admission.max_step == most


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "10 times that is admitted (admission.max_step)."),
        (
            ("--algorithm", "fedap-plus"),
            "100 times that is admitted (admission.max_step), 10 for each of 10 rounds",
        ),
        (("--admission-max-step", "4"), "not used, because admission.max_step is set"),
        (("--training-epochs", "3"), "not used, because this run trains more per round"),
    ],
)
def test_check_prints_which_bound_applies_and_why(
    initial: Path, tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    where = ("--run", "r", "--folder", str(tmp_path / "run"), "--initial", str(initial))
    shown = run_command(coordinator, "check", *where, "--member", "a", "--member", "b", *options)
    assert shown.code == 0
    assert sentence in shown.out


@pytest.mark.parametrize("noted", [{}, {"lengths": 0.0}, {"lengths": float("inf")}, {"lengths": "long"}])
def test_a_note_that_makes_no_sense_is_no_measurement(noted: dict[str, object]) -> None:
    whole = {"samples": 1, "learning_rate": 0.1, "momentum": 0.0, "epochs": 1, "batch_size": 32}
    assert MeasuredStep.noted({NOTE: json.dumps({**whole, **noted})}) is None
