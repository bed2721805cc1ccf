"""Claims about the attacks of the lab: what they send, that the coordinator's own rules judge them, and the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from scripts.experiments.attacks.arena import run_attack
from scripts.experiments.attacks.command import StoredOutcomes
from scripts.experiments.attacks.kinds import ATTACKS, Situation
from scripts.experiments.attacks.outcomes import ALONE, HONEST, AttackOutcome, AttackRun, cost_of, csv_rows, table
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
    assert len(found.accuracies) == 2
    assert 0.0 <= min(found.accuracies) <= found.accuracy <= 100.0


def outcomes(defence: str = "limit") -> dict[AttackRun, AttackOutcome]:
    """Two members, two seeds: 80 and 90 % alone, a point less beside an honest third, four less under attack."""
    loss = {(ALONE, HONEST): 0.0, (HONEST, defence): 1.0, ("huge", defence): 4.0}
    return {
        AttackRun(algorithm="fedap", attack=attack, defence=rule, seed=seed): AttackOutcome(
            accuracies=(80.0 + seed - less, 90.0 + seed - less),
            refused={"too-far": 3} if attack == "huge" else {},
            excluded=attack == "huge",
        )
        for (attack, rule), less in loss.items()
        for seed in (0, 1)
    }


def test_an_attack_is_compared_with_its_member_absent_and_honest_over_members_and_seeds() -> None:
    """81.5 = the mean of 76, 86, 77 and 87; every pair differs by -4 and -3, so the intervals have no width."""
    cost = cost_of(outcomes(), algorithm="fedap", attack="huge", defence="limit")
    assert cost is not None
    assert (cost.accuracy, cost.seeds, cost.refused, cost.excluded) == (81.5, 2, 6, 2)
    assert cost.to_alone is not None
    assert cost.to_honest is not None
    assert (cost.to_alone.mean, cost.to_alone.low, cost.to_alone.high, cost.to_alone.pairs) == (-4.0, -4.0, -4.0, 4)
    assert (cost.to_honest.mean, cost.to_honest.pairs) == (-3.0, 4)


def test_seeds_without_a_control_are_left_out_of_its_difference() -> None:
    found = outcomes()
    del found[AttackRun(algorithm="fedap", attack=HONEST, defence="limit", seed=1)]
    cost = cost_of(found, algorithm="fedap", attack="huge", defence="limit")
    assert cost is not None
    assert cost.to_honest is not None
    assert (cost.seeds, cost.to_honest.pairs) == (2, 2)
    assert cost_of(found, algorithm="fedap", attack="huge", defence="median") is None


def test_the_table_has_a_row_for_every_attack_and_says_what_was_refused() -> None:
    rows = table(outcomes()).splitlines()
    assert rows[0] == "| attack | fedap, limit |"
    assert rows[2:] == [
        "| alone | 85.5 |",
        "| none | 84.5 (-1.0, +0.0) |",
        "| huge | 81.5 (-4.0, -3.0; 6 refused, excluded in 2 of 2) |",
    ]
    assert ["fedap", "limit", "huge", 2, "81.500", *["-4.000"] * 3, *["-3.000"] * 3, 6, 2] in csv_rows(outcomes())


def test_outcomes_are_found_again_and_another_file_is_refused(tmp_path: Path) -> None:
    stored = StoredOutcomes(tmp_path / "outcomes.json")
    for run, outcome in outcomes().items():
        stored.add(run, outcome)
    assert StoredOutcomes(tmp_path / "outcomes.json").found == outcomes()
    (tmp_path / "outcomes.json").write_text('{"fedap/alone/none": {}}', encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"outcomes\.json"):
        StoredOutcomes(tmp_path / "outcomes.json")
