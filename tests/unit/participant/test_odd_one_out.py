"""Claims about a member that is unlike the others: it is told so, and keeps its own model by default."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedap_core.choosing import ALONE, FEDERATED, FINE_TUNED
from fedap_core.errors import InvalidInput
from participant.data.base import DataOptions
from participant.record.bundle import export_bundle
from participant.record.kept_models import KeptModels, kept_models
from participant.record.model_file import read_model
from participant.record.private_state import PERSONAL, PrivateState
from participant.training.home_data import HomeData
from participant.training.home_run import HomeRun
from participant.training.home_settings import HomeSettings
from participant.training.reports import read_scores
from protocol.messages import Finish, PeerWeight, Plan, Sgd, Train, Update, Welcome
from protocol.tensors import TensorSet
from tests.unit.participant.test_home_run import INITIAL, RUN, SPEC, never, plan, shared, whole

NAMES = ("alike-1", "alike-2", "odd")
ROUNDS = 8
WEIGHTS = np.full((3, 3), 1.0 / 3.0)
"""FedAvg's W of members with as many samples each."""
SIMILARITY = 0.41
"""What the coordinator says of everybody: unlike all others."""


EVERYTHING = HomeData.load("synthetic", DataOptions(options={"samples": "600", "classes": "3"})).dataset


def data_of(name: str) -> HomeData:
    """A third of the samples; the odd one calls each class by another's name."""
    first = 200 * NAMES.index(name)
    data = EVERYTHING.take(np.arange(first, first + 200))
    return HomeData(dataset=replace(data, y=(data.y + 1) % 3) if name == "odd" else data)


def opened(folder: Path, name: str, what: Plan, *, share_comparison: bool = False) -> HomeRun:
    welcome = Welcome(run=RUN, participant=name, round_no=0, heartbeat_s=1.0, plan=what, initial=whole(INITIAL))
    (folder / name).mkdir(parents=True, exist_ok=True)
    state = PrivateState(folder / name)
    settings = HomeSettings(share_comparison=share_comparison)
    return HomeRun(welcome=welcome, spec=SPEC, data=data_of(name), state=state, settings=settings)


def mixed(updates: list[Update]) -> list[TensorSet]:
    rows = WEIGHTS @ np.stack([np.asarray(one.weights.flat()) for one in updates]).astype(np.float64)
    layout = updates[0].weights.layout
    ends = np.cumsum([0, *(math.prod(spec.shape) for spec in layout.specs)])
    return [
        TensorSet.of(
            {
                spec.name: row[start:end].astype(np.float32).reshape(spec.shape)
                for spec, start, end in zip(layout.specs, ends, ends[1:], strict=False)
            }
        )
        for row in rows
    ]


def federate(folder: Path, what: Plan) -> Mapping[str, HomeRun]:
    """The three of them to the end, without a network; each has trained alone, too."""
    runs = {name: opened(folder, name, what) for name in NAMES}
    weights = [shared(INITIAL, "fedavg")] * 3
    for round_no in range(ROUNDS):
        updates = []
        for run, mine in zip(runs.values(), weights, strict=True):
            order = Train(run=RUN, round_no=round_no, weights=mine, phase="mixed", measure="none")
            update = run.train(order, never)
            assert update is not None
            run.train_alone(never)
            updates.append(update)
        weights = mixed(updates)
    for run, mine in zip(runs.values(), weights, strict=True):
        row = tuple(PeerWeight(member=name, weight=1.0 / 3.0) for name in NAMES)
        run.finish(
            Finish(run=RUN, round_no=ROUNDS, weights=mine, reason="rounds", mixed_from=row, similarity=SIMILARITY)
        )
        run.train_alone(never)
    return runs


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    sgd = Sgd(learning_rate=0.05, momentum=0.9, batch_size=16)
    federate(folder, plan("fedavg", rounds=ROUNDS, validation=0.25, sgd=sgd))
    return folder


def kept_of(folder: Path, name: str) -> KeptModels:
    kept = kept_models(folder / name)
    assert kept is not None
    return kept


def test_odd_one_out_keeps_its_own_model_and_is_told_the_reason(ended: Path, tmp_path: Path) -> None:
    kept = kept_of(ended, "odd")
    alone, together = (kept.models[name].candidate for name in (ALONE, FEDERATED))
    assert alone.test is not None
    assert together.test is not None
    assert alone.test.accuracy > together.test.accuracy + 0.2
    said = export_bundle(ended / "odd", tmp_path / "model.safetensors", force=False).splitlines()
    assert said[0].startswith("Alone you reach ")
    assert said[0].endswith("validation samples: your own model is better; export takes it.")
    _, tensors, notes = read_model(tmp_path / "model.safetensors")
    assert (notes["which"], notes["why"]) == (ALONE, kept.choice.sentence)
    assert float(notes["test_accuracy"]) == alone.test.accuracy
    assert all((tensors[name] == tensor).all() for name, tensor in kept.models[ALONE].model.items())


def test_export_gives_the_model_that_is_asked_for(ended: Path, tmp_path: Path) -> None:
    for which in (FEDERATED, FINE_TUNED, ALONE):
        out = tmp_path / f"{which}.safetensors"
        export_bundle(ended / "odd", out, force=False, which=which)
        notes = read_model(out)[2]
        assert (notes["which"], notes["why"]) == (which, f"requested by --which {which}")
    personal = read_model(ended / "odd" / PERSONAL)[1]
    federated = read_model(tmp_path / "federated.safetensors")[1]
    assert all((federated[name] == tensor).all() for name, tensor in personal.items())
    with pytest.raises(InvalidInput, match="which"):
        export_bundle(ended / "odd", tmp_path / "x.safetensors", force=False, which="mine")


def test_saved_scores_are_those_of_the_saved_models(ended: Path) -> None:
    """By class they add up to the totals, split by split."""
    for name in NAMES:
        for model in kept_of(ended, name).models.values():
            for split in ("validation", "test"):
                tally = getattr(model.candidate, split)
                assert sum(model.judged[split]["samples"]) == tally.samples
                assert sum(model.judged[split]["correct"]) == tally.correct


def test_scores_of_training_alone_leave_only_where_they_are_shared(tmp_path: Path) -> None:
    what, said = plan(rounds=1, validation=0.25), {}
    for share in (True, False):
        run = opened(tmp_path / str(share), "odd", what, share_comparison=share)
        order = Train(run=RUN, round_no=0, weights=shared(INITIAL), phase="mixed", measure="none")
        assert run.train(order, never) is not None
        goodbye = run.finish(Finish(run=RUN, round_no=1, weights=shared(INITIAL), reason="rounds"))
        said[share] = [score for score in goodbye.scores if score.model == ALONE]
        assert opened(tmp_path / str(share), "odd", what, share_comparison=share).finished_report == goodbye
    assert [score.split for score in said[True]] == ["validation", "test"]
    assert said[False] == []


def test_card_says_what_the_model_is_for_people_and_programs(ended: Path, tmp_path: Path) -> None:
    said = export_bundle(ended / "odd", tmp_path / "model.safetensors", force=False)
    card = json.loads((tmp_path / "model.card.json").read_text(encoding="utf-8"))
    text = (tmp_path / "model.card.md").read_text(encoding="utf-8")
    kept = kept_of(ended, "odd")
    assert "model.card.md" in said
    assert (card["which"], card["why"]) == (ALONE, kept.choice.sentence)
    assert card["data"]["samples"] == {"train": 75, "validation": 25, "test": 100}
    assert sum(card["data"]["test_samples_by_class"].values()) == 100
    assert card["run"]["settings"]["strategy"] == "fedavg"
    assert card["candidates"][ALONE]["test"]["correct"] == kept.models[ALONE].candidate.test.correct  # type: ignore[union-attr]
    assert 0.0 <= card["quality"]["test"]["calibration_error"] <= 1.0
    for name, one in card["scores_by_class"].items():
        assert one["sensitivity"]["interval"][0] <= one["sensitivity"]["accuracy"] <= one["sensitivity"]["interval"][1]
        assert f"| {name} | {card['data']['test_samples_by_class'][name]} |" in text
    assert "not a medical device" in text
    assert card["run"]["mixed_from"] == dict.fromkeys(NAMES, 1.0 / 3.0)
    assert "| alike-1 | 33.3 % |" in text


def test_member_that_fits_nobody_is_informed_with_what_it_took_from_others(ended: Path, tmp_path: Path) -> None:
    said = export_bundle(ended / "odd", tmp_path / "model.safetensors", force=False)
    assert "differ from those of all other members: similarity 0.41 to the most similar one" in said
    assert "takes 67% from others" in said


def test_training_alone_continues_after_a_kill_with_the_same_bits(ended: Path, tmp_path: Path) -> None:
    """Every round is saved: a life that stops in the middle of one trains it again."""
    what = plan(rounds=2, validation=0.25)
    stopped, straight = (tmp_path / "stopped", tmp_path / "straight")
    for folder in (stopped, straight):
        run = opened(folder, "odd", what)
        for round_no in range(2):
            order = Train(run=RUN, round_no=round_no, weights=shared(INITIAL), phase="mixed", measure="none")
            assert run.train(order, never) is not None
        asked = iter([False] * 7 + [True] * 100)
        run.train_alone(never if folder is straight else lambda asked=asked: next(asked))  # type: ignore[misc]
    opened(stopped, "odd", what).train_alone(never)
    first, second = (PrivateState(folder / "odd").run(RUN, SPEC).read_beside(ALONE) for folder in (stopped, straight))
    assert first is not None
    assert second is not None
    assert (first.round_no, read_scores(first.facts)) == (1, read_scores(second.facts))
    assert all((second.model[name] == tensor).all() for name, tensor in first.model.items())
