"""Claims about updates under differential privacy: what leaves is clipped and noised once, told again as it was,
charged once, and never beyond the budget; with every encoding and in sealed runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from participant.record.disk import Disk
from participant.record.privacy_ledger import PrivacyLedger
from participant.record.private_state import PrivateState
from participant.training.home_run import HomeRun
from participant.training.home_settings import HomeSettings
from participant.training.privacy_budget import StatisticsPrivacy, UpdatePrivacy, spent_epsilon
from participant.training.reports import ARRIVED
from protocol.messages import Anchor, Plan, Train, Update, Welcome
from protocol.tensors import TensorSet
from tests.unit.participant.test_home_run import DATA, INITIAL, RUN, SPEC, bits, order, plan, shared, trained, whole
from tests.unit.participant.test_sealed_run import EMPTY, KEY, order_of, sealing

PRIVACY = UpdatePrivacy(epsilon=8.0, clip=0.5)


def opened(
    folder: Path, privacy: UpdatePrivacy | None = PRIVACY, what: Plan | None = None, *, round_no: int = 0
) -> HomeRun:
    agreed = what or plan()
    welcome = Welcome(
        run=RUN, participant="c1", round_no=round_no, heartbeat_s=1.0, plan=agreed, initial=whole(INITIAL)
    )
    key = KEY if agreed.sealed is not None else None
    settings = HomeSettings(update_privacy=privacy, group_key=key)
    return HomeRun(welcome=welcome, spec=SPEC, data=DATA, state=PrivateState(folder), settings=settings)


def released(folder: Path) -> list[int]:
    return [
        one.round_no for one in PrivacyLedger(folder, Disk()).releases if (one.what, one.unit) == ("update", "silo")
    ]


def sent(update: Update) -> TensorSet:
    return update.weights if update.weights.in_full is None else update.weights.in_full


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path


def test_what_leaves_is_the_clipped_step_with_noise_and_what_stays_is_exact(folder: Path, tmp_path: Path) -> None:
    """The noise has length sigma * sqrt(values); the step adds at most 0.5 to it."""
    (tmp_path / "exact" / "state").mkdir(parents=True)
    start = shared(INITIAL)
    run, exact = opened(folder), trained(opened(tmp_path / "exact", None), order(0, start))
    update = trained(run, order(0, start))
    length = float(np.linalg.norm(update.weights.flat() - start.flat()))
    assert length == pytest.approx(2 * 0.5 * PRIVACY.noise_multiplier * start.flat().size ** 0.5, rel=0.03)
    assert np.mean(update.weights.flat() == exact.weights.flat()) < 0.001
    assert run._client.shared.tobytes() == bits(exact.weights)


def test_one_silo_cannot_predict_the_noise_of_another(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "state").mkdir(parents=True)
    one, other = (trained(opened(path), order(0, shared(INITIAL))) for path in (folder, tmp_path / "other"))
    here, there = (update.weights.flat() - shared(INITIAL).flat() for update in (one, other))
    assert abs(np.corrcoef(here, there)[0, 1]) < 0.05


@pytest.mark.parametrize("encoding", ["f32", "f16", "int8", "topk"])
def test_a_new_process_sends_the_same_bytes_and_continues_with_the_same_bits(folder: Path, encoding: str) -> None:
    what = plan(encoding=encoding)
    start = TensorSet.of_flat(shared(INITIAL).layout, shared(INITIAL).flat(), "f16" if encoding == "f16" else "f32")
    first = opened(folder, what=what)
    update = trained(first, order(0, start))
    again = opened(folder, None, what=what).finished_report  # what was told is told again, whatever is configured
    assert isinstance(again, Update)
    assert bits(again.weights) == bits(sent(update))
    later = trained(opened(folder, what=what), order(1, start))
    assert released(folder) == [0, 1]
    killed_before_it_was_saved = trained(first, order(1, start))
    assert bits(sent(killed_before_it_was_saved)) == bits(sent(later))
    assert released(folder) == [0, 1]


def test_an_update_without_delivered_weights_begins_at_what_left_before(folder: Path) -> None:
    """Weights that are refused leave one's own model, which nobody may see."""
    privacy = UpdatePrivacy(epsilon=1e6, clip=1e-3)  # next to no noise, next to no step
    run = opened(folder, privacy)
    trained(run, order(0, shared(INITIAL)))
    broken = TensorSet.of_flat(shared(INITIAL).layout, np.full_like(shared(INITIAL).flat(), np.nan))
    update = trained(run, order(1, broken))
    assert run.refused is not None
    assert np.abs(update.weights.flat() - shared(INITIAL).flat()).max() < 0.01
    assert np.abs(update.weights.flat() - run._client.shared).max() > 0.01


def test_statistics_and_updates_are_charged_to_one_ledger_and_to_limits_of_their_own(folder: Path) -> None:
    welcome = Welcome(run=RUN, participant="c1", round_no=0, heartbeat_s=1.0, plan=plan(), initial=whole(INITIAL))
    statistics = StatisticsPrivacy(epsilon=1.0, limit_epsilon=1.0)
    settings = HomeSettings(update_privacy=PRIVACY, statistics_privacy=statistics)
    run = HomeRun(welcome=welcome, spec=SPEC, data=DATA, state=PrivateState(folder), settings=settings)
    run.measure(Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=None))
    trained(run, order(0, shared(INITIAL)), order(1, shared(INITIAL)))
    found = PrivacyLedger(folder, Disk()).releases
    assert [(one.what, one.round_no) for one in found] == [("statistics", 0), ("update", 0), ("update", 1)]


def test_a_run_that_the_budget_is_not_enough_for_is_refused_before_it_begins(folder: Path) -> None:
    two = spent_epsilon([PRIVACY.noise_multiplier] * 2, PRIVACY.delta)
    limited = PRIVACY.model_copy(update={"limit_epsilon": two})
    with pytest.raises(InvalidInput, match=r"update_privacy\.limit_epsilon: .* for 4 more releases \(0 spent"):
        opened(folder, limited)
    run = opened(folder, limited, plan(rounds=2))
    for round_no in (0, 1):
        trained(run, order(round_no, shared(INITIAL)))
    reborn = opened(folder, limited, plan(rounds=2), round_no=1)  # nothing is left to pay for
    with pytest.raises(InvalidInput, match=r"for one more release .*Nothing was sent"):
        trained(reborn, order(2, shared(INITIAL)))
    assert released(folder) == [0, 1]


def test_a_round_that_was_saved_without_noise_is_not_told_with_it(folder: Path) -> None:
    trained(opened(folder, None), order(0, shared(INITIAL)))
    with pytest.raises(InvalidInput, match=r"update_privacy: got set, but round 1 of home-run was saved without noise"):
        _ = opened(folder).finished_report


def test_running_statistics_of_training_are_refused_and_an_algorithm_that_sends_nothing_pays_nothing(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="f-fedap, which sends running statistics"):
        opened(folder, what=plan("f-fedap"))
    (tmp_path / "alone" / "state").mkdir(parents=True)
    trained(opened(tmp_path / "alone", what=plan("base")), order(0, shared(INITIAL, "base")))
    assert released(tmp_path / "alone") == []


def test_a_shared_running_variance_stays_positive(folder: Path) -> None:
    privacy = UpdatePrivacy(epsilon=1.0, clip=5.0)
    update = trained(opened(folder, privacy, plan("fedavg")), order(0, shared(INITIAL, "fedavg")))
    variances = [array for name, array in update.weights.arrays().items() if name.endswith("running_var")]
    assert variances
    assert all((array > 0).all() for array in variances)


def test_a_sealed_update_holds_the_noised_values_and_an_order_without_uploads_brings_nothing_public(
    folder: Path,
) -> None:
    """Opened alone, with its whole weight, an upload is what its member has released."""
    what = plan("fedavg", sealed=sealing())
    run = opened(folder, UpdatePrivacy(epsilon=1e6, clip=1e-3), what)
    first = Train(run=RUN, round_no=0, phase="mixed", measure="none", weights=EMPTY)
    update = trained(run, first)
    values = run._latest.extras[ARRIVED].numpy() if run._latest is not None else np.zeros(0)
    assert np.abs(values - shared(INITIAL, "fedavg").flat()).max() < 0.01
    assert np.abs(values - run._client.shared).max() > 0.01
    opened_again = order_of("c1", {"c1": update}, {"c1": 2**20})
    assert run._sealed is not None
    found = run._sealed._sealer.open_sum(
        np.array(opened_again.weights.arrays()["sealed"]) if opened_again.weights else np.zeros(0, dtype=np.int64),
        [run._sealed._own_upload(0, str(run._latest.facts["salt"]))] if run._latest is not None else [],
    )
    np.testing.assert_allclose(found, values, atol=2**-24)
