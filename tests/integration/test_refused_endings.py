"""A run whose last model a participant refused: what it keeps is never called together, federated or delivered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedap_core.workspace import TRAINED
from participant.cli import main as participant
from participant.decisions.actions import End
from participant.page.reading import HomeFollower
from participant.page.view import context_of
from participant.record.kept_models import kept_models
from participant.record.model_file import read_model
from protocol.limits import SLICE_BYTES
from protocol.messages import Goodbye
from scripts.drill.hostile.scripted_coordinator import FalseCoordinator, ScenarioData
from scripts.drill.model import model_name
from tests.support.cohorts import run_command


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ScenarioData:
    return ScenarioData.made(tmp_path_factory.mktemp("cast"))


@pytest.fixture(scope="module")
def sliced(tmp_path_factory: pytest.TempPathFactory) -> ScenarioData:
    return ScenarioData.made(tmp_path_factory.mktemp("sliced"), model_name(2 * SLICE_BYTES))


def ended(data: ScenarioData, folder: Path, value: float | None, *, everything: bool = False) -> FalseCoordinator:
    """One honest round, then an end whose weights all have one value, with a fifth of the samples held back."""
    with FalseCoordinator(data, folder) as session:
        session.start(validation=0.2)
        session.welcome(data.plan(validation=0.2))
        session.round(0)
        session.end_honestly(1, weights=data.weights(value, everything=everything))
    return session


@pytest.mark.parametrize(
    ("value", "everything", "why"),
    [
        (float("nan"), False, "own training of round 1 (refused: finish 1: tensor "),
        (1e30, False, "own training of round 1 (refused: finish 1: tensor "),
        (None, True, "own training of round 1 (refused: "),
    ],
)
def test_a_refused_last_model_is_no_federated_one(
    data: ScenarioData, tmp_path: Path, value: float | None, *, everything: bool, why: str
) -> None:
    session = ended(data, tmp_path, value, everything=everything)
    state, out = session.state, tmp_path / "exported.safetensors"
    (end,) = session.ends
    assert isinstance(end, End)
    assert end.reason.startswith(f"The last federated model was not used; kept instead: {why}")
    assert ", without the last delivery " in end.reason
    exported = run_command(participant, "export", "--state", str(state), "--out", str(out))
    assert (exported.code, exported.complaint) == (0, "")
    card = json.loads((tmp_path / "exported.card.json").read_text())
    text = (tmp_path / "exported.card.md").read_text()
    for told in (end.reason, exported.out, text):
        assert "The last federated model was not used; kept instead: " in told
        assert " together " not in told
        assert "federated one" not in told
    assert set(card["candidates"]) == {"own", "alone"}
    assert f"kept instead: {card['run']['kept_instead']}." in text
    again = ("export", "--state", str(state), "--out", str(out), "--force", "--which")
    assert run_command(participant, *again, "federated").is_one_clear_line
    named = run_command(participant, *again, "own")
    assert f"the model is {why}" in named.out
    shown = context_of(HomeFollower(state).refresh())
    assert shown["home"].instead in text
    assert {one.name for one in shown["home"].candidates} == {"own", "alone"}
    (said,) = [one for one in session.received if isinstance(one, Goodbye)]
    assert {score.model for score in said.scores} == {TRAINED}


def test_a_last_model_in_slices_that_is_refused_before_it_is_fetched_is_none_either(
    sliced: ScenarioData, tmp_path: Path
) -> None:
    session = ended(sliced, tmp_path, None, everything=True)
    kept = kept_models(session.state)
    assert kept is not None
    assert kept.words()[0].startswith("The last federated model was not used; kept instead: own training of round 1 (")
    assert "federated" not in kept.models


def test_an_accepted_last_model_is_the_federated_one(data: ScenarioData, tmp_path: Path) -> None:
    session = ended(data, tmp_path, None)
    kept = kept_models(session.state)
    assert kept is not None
    assert (set(kept.models), kept.instead) == ({"federated", "alone", "fine-tuned"}, "")
    _, _, notes = read_model(session.state / "personal.safetensors")
    assert notes["model"] == "mixed after round 1"
