"""Claims about the attacks of the lab: what they send, that the coordinator's own rules judge them, and the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scripts.experiments.attacks.arena import run_attack
from scripts.experiments.attacks.command import table
from scripts.experiments.attacks.kinds import ATTACKS, Situation
from scripts.run.cohort import make_cohort
from scripts.run.settings import CohortSettings, RunSettings


def situation(round_no: int = 0) -> Situation:
    """Two values: given 0, everybody trained to (3, 4), this one to (1, 0)."""
    return Situation(
        round_no=round_no,
        sent=np.zeros(2, dtype=np.float32),
        trained=np.asarray([1, 0], dtype=np.float32),
        honest=np.asarray([[3, 4]] * 4, dtype=np.float32),
        given=np.zeros((4, 2), dtype=np.float32),
        rng=np.random.default_rng(0),
    )


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("none", [1, 0]),
        ("huge", [9e5, 9e5]),
        ("zeros", [0, 0]),
        ("flip-10", [-10, 0]),
        ("product", [-1.5, -2.0]),
        ("a-little", [3, 4]),
        ("alternating", [-10, 0]),
    ],
)
def test_attacks_send_what_they_are_called(name: str, sent: list[float]) -> None:
    assert ATTACKS[name].update(situation()).tolist() == sent
    assert ATTACKS["alternating"].update(situation(1)).tolist() == [1, 0]


def test_noise_has_the_stated_norm() -> None:
    """An honest step is 5 long, ten of them 50."""
    assert np.linalg.norm(ATTACKS["noise"].update(situation())) == pytest.approx(50.0, rel=1e-5)


def test_the_coordinators_rules_refuse_and_exclude_in_the_arena(tmp_path: Path) -> None:
    cohort = CohortSettings(data="watch", partition="site")
    run = RunSettings(cohort=cohort, model="har-cnn", algorithm="fedbn", rounds=4, options={"robust": "limit"})
    found = run_attack(run, make_cohort(cohort, 0), ATTACKS["huge"], honest=2, admission=True, folder=tmp_path)
    assert (found.refused, found.excluded) == ({"out-of-range": 3}, True)
    assert 0.0 <= found.worst <= found.accuracy <= 100.0


def test_the_table_has_a_row_for_every_attack_and_says_what_was_refused() -> None:
    outcome = {"accuracy": 80.0, "worst": 70.0, "refused": {"too-far": 3}, "excluded": True}
    alone = {**outcome, "refused": {}, "excluded": False}
    rows = table({"fedap/alone/none": alone, "fedap/huge/limit": outcome}).splitlines()
    assert rows[0] == "| attack | fedap, limit |"
    assert rows[2:] == ["| alone | 80.0 |", "| huge | 80.0 (3 refused, excluded) |"]
