"""Claims about noise in the lab: W feels it, the same seed repeats it, and engines that cannot repeat it refuse it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from participant.record.model_file import read_model
from participant.training.privacy_budget import StatisticsPrivacy, UpdatePrivacy
from scripts.engines import find_engine
from scripts.engines.base import EngineOptions
from scripts.engines.inline import run_inline
from scripts.run.cohort import make_cohort, model_file_name
from scripts.run.settings import CohortSettings, RunSettings

COHORT = CohortSettings(data="synthetic", data_options={"samples": "480"}, clients=4, partition="dirichlet", alpha=1.0)


def settings(epsilon: float | None) -> RunSettings:
    privacy = None if epsilon is None else StatisticsPrivacy(epsilon=epsilon)
    anchor = {"kind": "pooled", "epochs": 1}
    return RunSettings.model_validate(
        {
            "cohort": COHORT, "model": "lenet5", "algorithm": "fedap", "rounds": 1, "anchor": anchor,
            "statistics_privacy": privacy,
        }
    )  # fmt: skip


def test_noise_moves_w_and_can_be_repeated(tmp_path: Path) -> None:
    cohort = make_cohort(COHORT, 0)
    found = []
    for number, epsilon in enumerate((None, 1.0, 1.0)):
        folder = run_inline(settings(epsilon), cohort, EngineOptions(root=tmp_path / str(number)))
        mixing = folder.read_mixing()
        assert mixing is not None
        found.append(mixing.weights)
    exact, noisy, again = found
    assert not np.allclose(exact, noisy)
    np.testing.assert_array_equal(noisy, again)
    np.testing.assert_allclose(noisy.sum(axis=1), 1.0)


def test_runs_with_noise_have_names_of_their_own() -> None:
    assert settings(None).identity != settings(1.0).identity


def noisy_updates(epsilon: float) -> RunSettings:
    return settings(None).model_copy(update={"update_privacy": UpdatePrivacy(epsilon=epsilon, clip=0.1)})


def test_noise_in_updates_reaches_everybody_and_can_be_repeated(tmp_path: Path) -> None:
    cohort = make_cohort(COHORT, 0)
    found = []
    for number, one in enumerate((settings(None), noisy_updates(1.0), noisy_updates(1.0))):
        folder = run_inline(one, cohort, EngineOptions(root=tmp_path / str(number)))
        models = (read_model(folder.models(0) / model_file_name(client.name))[1] for client in cohort.clients)
        found.append(np.concatenate([model["fc1.weight"].numpy().ravel() for model in models]))
    exact, noisy, again = found
    assert noisy.std() > 3 * exact.std()
    np.testing.assert_array_equal(noisy, again)
    assert noisy_updates(1.0).identity != settings(None).identity


@pytest.mark.parametrize("noisy", [settings(1.0), noisy_updates(1.0)])
def test_participants_of_their_own_draw_from_secrets(noisy: RunSettings) -> None:
    find_engine("inline").require_able(noisy)
    with pytest.raises(InvalidInput, match="_privacy: got given"):
        find_engine("processes").require_able(noisy)
