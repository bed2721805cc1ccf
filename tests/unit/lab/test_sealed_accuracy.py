"""Claims about sealed runs in the lab: rounding alone sets them apart from clear ones, and chance does more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedap_core.errors import InvalidInput
from fedap_core.strategies import Phase, make_strategy
from scripts.engines import find_engine
from scripts.engines.sealed_rows import mix_as_sealed
from scripts.experiments.sealed_accuracy import differences
from scripts.lab import app
from tests.support.cohorts import small_run


def test_a_sealed_mix_is_the_clear_one_up_to_rounding_where_no_peer_is_above_the_cap() -> None:
    """W is rounded by at most 2^-20 per peer, values by 2^-25: 5 * 2^-20 + 2^-25 for values of size 1."""
    rng = np.random.default_rng(0)
    updates = [one.astype(np.float32) for one in rng.uniform(-1.0, 1.0, (5, 70_001))]
    weights = 0.5 * np.eye(5) + 0.5 * (1 - np.eye(5)) * rng.uniform(0.8, 1.2, (5, 5))
    weights = np.where(np.eye(5, dtype=bool), 0.5, weights / (weights.sum(axis=1) - 0.5)[:, None] * 0.5)
    expected = weights @ np.stack(updates).astype(np.float64)
    mix_as_sealed(weights, "abcde", make_strategy("fedap"), Phase.MIXED, updates)
    assert np.abs(np.stack(updates) - expected).max() < 5 * 2.0**-20 + 2.0**-24


def test_who_fits_nobody_keeps_its_own_model_in_a_sealed_mix_as_well() -> None:
    updates = [np.full(8, value, dtype=np.float32) for value in (1.0, 2.0, 3.0, 4.0)]
    weights = np.array([[1.0, 0, 0, 0], [0, 0.5, 0.25, 0.25], [0, 0.25, 0.5, 0.25], [0, 0.25, 0.25, 0.5]])
    mix_as_sealed(weights, "abcd", make_strategy("fedap", {"min_similarity": 0.7}), Phase.MIXED, updates)
    assert [float(one[0]) for one in updates] == [1.0, 2.75, 3.0, 3.25]


@pytest.mark.parametrize(
    "asked",
    [
        {"algorithm": "fedamp"},
        {"algorithm": "fedap", "encoding": "int8"},
        {"algorithm": "fedap", "participation": 0.5},
    ],
)
def test_what_has_other_rows_in_a_sealed_run_is_refused(asked: dict[str, object]) -> None:
    algorithm = str(asked.pop("algorithm"))
    small_run(algorithm, **asked)  # type: ignore[arg-type]
    with pytest.raises((InvalidInput, ValueError), match="sealed"):
        small_run(algorithm, sealed=True, **asked)  # type: ignore[arg-type]


def test_processes_do_not_take_what_only_the_lab_rounds() -> None:
    with pytest.raises(InvalidInput, match="--engine inline"):
        find_engine("processes").require_able(small_run("fedap", sealed=True))


def test_the_spread_is_that_of_runs_in_clear() -> None:
    tails = {"clear": 0.50, "sealed": 0.58, "disturbed 1": 0.53, "disturbed 2": 0.46}
    assert differences(tails) == pytest.approx((0.08, 0.07))


def test_the_command_compares_a_sealed_run_with_disturbed_ones(tmp_path: Path) -> None:
    asked = ["--data", "synthetic", "--clients", "3", "--partition", "iid", "--rounds", "2", "--seeds", "0"]
    command = ["sealed-accuracy", *asked, "--disturbed", "1", "--jobs", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    table = (tmp_path / "sealed-accuracy.md").read_text().splitlines()
    assert table[0] == "| seed | clear | sealed | disturbed 1 | sealed less clear | spread of clear runs |"
    assert len(table) == 3
    initial = [next((folder / "initial").iterdir()).read_bytes() for folder in (tmp_path, tmp_path / "disturbed-1")]
    assert initial[0] != initial[1]
