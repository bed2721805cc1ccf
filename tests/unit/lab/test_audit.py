"""Claims about the audit: attacks find what is there to be found, and find nothing where there is nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from scripts.experiments.audit.recovery import recovery
from scripts.experiments.audit.strength import roc_of, strength_of
from scripts.lab import app


def test_area_is_one_for_a_perfect_attack_and_a_half_for_guessing() -> None:
    high, low = np.array([3.0, 4.0, 5.0]), np.array([0.0, 1.0])
    assert roc_of(high, low)[0] == 1.0
    assert roc_of(low, high)[0] == 0.0
    assert roc_of(np.ones(4), np.ones(7))[0] == 0.5
    assert roc_of(np.array([1.0, 2.0]), np.array([1.0, 0.0]))[0] == pytest.approx(0.875)


def test_hits_allow_no_more_false_alarms_than_said() -> None:
    others = np.arange(100.0)
    assert roc_of(np.array([98.5, 99.5, 200.0]), others)[1] == pytest.approx(1.0)
    assert roc_of(np.array([97.5, 200.0]), others)[1] == pytest.approx(0.5)


def test_interval_holds_the_mean_of_clients() -> None:
    rng = np.random.default_rng(0)
    found = strength_of([(rng.normal(1, 1, 200), rng.normal(0, 1, 200)) for _ in range(8)], seed=0)
    assert found.low <= found.auc <= found.high
    assert found.auc == pytest.approx(0.76, abs=0.03)


def test_all_rows_give_updates_away_and_one_row_or_pads_do_not() -> None:
    rng = np.random.default_rng(0)
    sent = rng.normal(0, 0.1, (6, 400)).astype(np.float32)
    weights = 0.5 * np.eye(6) + 0.5 * (1 - np.eye(6)) / 5
    given = (weights @ sent).astype(np.float32)
    found = recovery(weights, sent, given, 0)
    assert found.all_rows < 1e-4
    assert found.one_member > 0.5
    assert found.sealed > 0.9
    assert found.largest == pytest.approx(0.1)


def test_audit_writes_tables_and_goes_on_where_it_was(tmp_path: Path) -> None:
    options = ["--data", "synthetic", "--partition", "dirichlet", "--clients", "4", "--rounds", "1", "--epsilons", "1"]
    command = ["audit", *options, "--algorithms", "base,fedap", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "audit.json").read_text())
    assert set(found) == {
        "algorithm base", "algorithm fedap", "statistics exact", "statistics averaged by unit", "statistics 1"
    }  # fmt: skip
    assert "weights that leave, loss" in found["algorithm fedap"]
    assert found["statistics exact"]["correlation"] == pytest.approx(1.0)
    assert found["statistics 1"]["correlation"] < 1.0
    assert "ε = 1" in (tmp_path / "audit.md").read_text()
    assert (tmp_path / "budgets.svg").stat().st_size > 2000
    again = CliRunner().invoke(app, command)
    assert "done" not in again.output
    assert "| fedap | own model, loss |" in again.output
