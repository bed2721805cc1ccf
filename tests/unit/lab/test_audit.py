"""Claims about the audit: attacks find what is there to be found, and find nothing where there is nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedap_core.errors import InvalidInput
from scripts.experiments.audit.capture import capture, with_updates
from scripts.experiments.audit.recovery import padded, recovery
from scripts.experiments.audit.strength import roc_of, strength_of
from scripts.lab import app
from scripts.report.page.leakage import read_leakage
from tests.support.cohorts import clients_of, small_run


def test_area_is_one_for_a_perfect_attack_and_a_half_for_guessing() -> None:
    high, low = np.array([3.0, 4.0, 5.0]), np.array([0.0, 1.0])
    assert roc_of(high, low)[0] == 1.0
    assert roc_of(low, high)[0] == 0.0
    assert roc_of(np.ones(4), np.ones(7))[0] == 0.5
    assert roc_of(np.array([1.0, 2.0]), np.array([1.0, 0.0]))[0] == pytest.approx(0.875)


def test_hits_stay_within_the_allowed_false_alarms() -> None:
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


def test_audit_writes_tables_and_a_section_of_the_report_and_continues_where_it_was(tmp_path: Path) -> None:
    options = ["--data", "synthetic", "--partition", "dirichlet", "--clients", "4", "--rounds", "1", "--epsilons", "1"]
    command = ["audit", *options, "--algorithms", "base,fedap", "--update-epsilons", "10", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "audit.json").read_text())
    assert set(found) == {
        "about", "algorithm base", "algorithm fedap", "algorithm fedap, sealed",
        "algorithm fedap, statistics with ε = 1", "statistics exact", "statistics averaged by unit", "statistics 1",
        "updates exact", "updates 10",
    }  # fmt: skip
    assert "weights that leave, loss" in found["algorithm fedap"]
    assert found["statistics exact"]["correlation"] == pytest.approx(1.0)
    assert found["statistics 1"]["correlation"] < 1.0
    assert found["updates exact"]["loss"] == found["algorithm fedap"]["weights that leave, loss"]
    assert found["updates 10"]["accuracy"] < found["updates exact"]["accuracy"]
    assert found["updates 10"]["together"] == pytest.approx(10.0)
    assert "ε = 1" in (tmp_path / "audit.md").read_text()
    assert (tmp_path / "budgets.svg").stat().st_size > 2000
    again = CliRunner().invoke(app, command)
    assert "done" not in again.output
    assert "| fedap | own model |" in again.output
    for folder in (tmp_path, tmp_path / "runs"):
        assert CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path / "page.html")]).exit_code == 0
        page = (tmp_path / "page.html").read_text()
        assert page.count('id="leakage"') == 1
        assert "fedap, statistics with ε = 1" in page


@pytest.mark.parametrize("sealed", [False, True])
def test_what_travels_beside_the_weights_is_captured_with_them(tmp_path: Path, sealed: bool) -> None:
    """SCAFFOLD sends a correction for every trained value, and all of it is what an attacker sees."""
    settings = small_run("scaffold", rounds=1)
    captured = capture(settings, clients_of(settings), tmp_path, workers=1)
    weights = sum(captured.initial[name].numel() for name in captured.shared)
    assert captured.sent.shape[1] == sum(one.size for one in settings.strategy().travelling(captured.spec))
    assert captured.sent.shape[1] > weights
    seen = padded(captured.sent, 0) if sealed else captured.sent
    changed = with_updates(captured, seen)
    name = captured.shared[0]
    is_same = bool((changed.updates[0][name] == captured.updates[0][name]).all())
    assert is_same is not sealed


def test_a_report_without_an_audit_says_nothing_of_leaks(tmp_path: Path) -> None:
    assert read_leakage([tmp_path]) is None
    (tmp_path / "audit.json").write_text("[")
    with pytest.raises(InvalidInput, match=r"audit\.json"):
        read_leakage([tmp_path])
