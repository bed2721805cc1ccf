"""Claims about statistics under differential privacy: what a budget costs, and that it cannot be spent unseen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from participant.record.disk import Disk
from participant.record.privacy_ledger import LEDGER, SECRET, PrivacyLedger, gaussian
from participant.record.private_state import PrivateState
from participant.training.home_run import HomeRun
from participant.training.home_settings import HomeSettings
from participant.training.privacy_budget import StatisticsPrivacy, noise_multiplier_of, spent_epsilon
from protocol.messages import Anchor, Stats, Welcome
from tests.unit.participant.test_home_run import DATA, INITIAL, RUN, SPEC, plan, whole


def opened(folder: Path, privacy: StatisticsPrivacy | None, strategy: str = "fedap") -> HomeRun:
    welcome = Welcome(
        run=RUN, participant="c1", round_no=0, heartbeat_s=1.0, plan=plan(strategy), initial=whole(INITIAL)
    )
    settings = HomeSettings(statistics_privacy=privacy)
    return HomeRun(welcome=welcome, spec=SPEC, data=DATA, state=PrivateState(folder), settings=settings)


def measured(run: HomeRun, round_no: int = 0, measure: str = "bn-inputs") -> Stats:
    return run.measure(Anchor(run=RUN, round_no=round_no, measure=measure, weights=None))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path


def test_noise_of_a_budget_and_budget_of_the_noise_agree() -> None:
    for epsilon in (0.1, 1.0, 8.0):
        assert spent_epsilon([noise_multiplier_of(epsilon, 1e-5)], 1e-5) == pytest.approx(epsilon, rel=1e-6)
    assert noise_multiplier_of(1.0, 1e-5) == pytest.approx(3.7306, abs=1e-3)  # of the analytic Gaussian mechanism
    assert spent_epsilon([], 1e-5) == 0.0


@pytest.mark.slow
def test_composition_agrees_with_the_accountant_of_privacy_loss_distributions() -> None:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for multiplier in (2.0, 3.0, 5.0):
        accountant.compose(dp_accounting.GaussianDpEvent(multiplier))
    assert spent_epsilon([2.0, 3.0, 5.0], 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_a_limit_is_refused_by_name_with_what_is_spent() -> None:
    privacy = StatisticsPrivacy(epsilon=1.0, limit_epsilon=1.0)
    assert privacy.require_within([]) == pytest.approx(1.0)
    with pytest.raises(
        InvalidInput, match=r"limit_epsilon: got 1.0, expected at least 1.47.*1 spent.*Nothing was sent"
    ):
        privacy.require_within([privacy.noise_multiplier])


def test_secret_noise_is_standard_normal_and_depends_on_the_whole_key() -> None:
    drawn = gaussian(b"k" * 32, 20_001)
    assert drawn.shape == (20_001,)
    assert abs(drawn.mean()) < 0.03
    assert drawn.std() == pytest.approx(1.0, abs=0.03)
    assert np.abs(np.corrcoef(drawn[:10_000], drawn[10_000:20_000])[0, 1]) < 0.04
    assert not np.array_equal(drawn, gaussian(b"k" * 31 + b"l", 20_001))


def test_the_same_question_after_a_restart_has_the_same_answer_and_costs_nothing(folder: Path) -> None:
    privacy = StatisticsPrivacy(epsilon=1.0, limit_epsilon=1.0)
    first = measured(opened(folder, privacy))
    again = measured(opened(folder, privacy))
    assert first == again
    assert len(json.loads((folder / LEDGER).read_text())["releases"]) == 1
    assert (folder / SECRET).stat().st_mode & 0o077 == 0


def test_another_question_costs_and_is_refused_beyond_the_limit(folder: Path) -> None:
    run = opened(folder, StatisticsPrivacy(epsilon=1.0, limit_epsilon=1.2))
    measured(run)
    with pytest.raises(InvalidInput, match=r"statistics_privacy\.limit_epsilon"):
        measured(run, round_no=1)
    assert len(PrivacyLedger(folder, Disk()).releases) == 1


def test_what_leaves_is_neither_exact_nor_predictable_from_the_plan(folder: Path, tmp_path: Path) -> None:
    exact = measured(opened(folder, None)).moments.arrays()
    other = tmp_path / "other"
    (other / "state").mkdir(parents=True)
    privacy = StatisticsPrivacy(epsilon=1.0)
    here, there = (measured(opened(one, privacy)).moments.arrays() for one in (folder, other))
    for name, array in exact.items():
        if name.endswith("/count"):
            assert array == here[name] == there[name]
        else:
            assert not np.isin(here[name], array).any()
        if name.endswith("/mean"):
            assert not np.isin(here[name], there[name]).any()


def test_head_inputs_are_protected_too(folder: Path) -> None:
    exact = measured(opened(folder, None, "d-fedap"), measure="head-inputs").moments.arrays()
    noisy = measured(opened(folder, StatisticsPrivacy(epsilon=1.0), "d-fedap"), measure="head-inputs").moments.arrays()
    assert exact.keys() == noisy.keys()
    assert not any(np.isin(noisy[name], exact[name]).any() for name in exact if name.endswith("/mean"))


def test_running_statistics_are_refused_because_training_made_them(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="f-fedap, which sends running statistics"):
        opened(folder, StatisticsPrivacy(epsilon=1.0), "f-fedap")


def test_a_damaged_ledger_is_not_forgotten(folder: Path) -> None:
    (folder / LEDGER).write_text("{}")
    with pytest.raises(InvalidInput, match="records the budget spent so far"):
        _ = PrivacyLedger(folder, Disk()).releases
