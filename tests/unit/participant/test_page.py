"""Claims about a participant's page: what it reads of a state folder, without torch, and what it says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.preprocessing import Preprocessing
from participant.page.notes import noting
from participant.page.reading import HomeFollower, SentLedger
from participant.page.serving import home_page
from participant.page.view import context_of, headline
from participant.record.disk import Disk
from participant.record.model_file import make_initial
from participant.record.private_state import RunState, SavedRound
from participant.training.pace import Progress
from tests.architecture.sources import ROOT
from tests.support.web import served


@pytest.fixture
def model() -> tuple[ModelSpec, State]:
    return make_initial("lenet5", input_shape=(1, 16, 16), classes=("a", "b"), preprocessing=Preprocessing(), seed=0)


def sent(kind: str, size: int, **more: object) -> str:
    line = {"time": "2026-01-02T03:04:05.000+00:00", "kind": kind, "bytes": size, "names": [], "hash": "abc"}
    return json.dumps({**line, **more}) + "\n"


def state_folder(folder: Path) -> Path:
    """A participant that has prepared the run `wards` and said hello."""
    (folder / "state" / "wards").mkdir(parents=True)
    (folder / "state" / "current").write_text("wards\n")
    (folder / "sent.jsonl").write_text(sent("hello", 100))
    return folder


def score(correct: int, split: str = "test", model: str = "delivered") -> dict[str, object]:
    return {"model": model, "split": split, "samples": 100, "correct": correct, "loss": 0.5, "macro_f1": 0.5}


def save(folder: Path, model: tuple[ModelSpec, State], kind: str, round_no: int, *correct: int, **more: object) -> None:
    """correct: on test samples, and on validation samples where given. more: facts."""
    spec, state = model
    scores = [score(number, split) for number, split in zip(correct, ("test", "validation"), strict=False)]
    saved = SavedRound(kind=kind, round_no=round_no, phase="mixed", model=state, facts={"scores": scores, **more})
    files = RunState(folder / "state" / "wards", spec, Disk())
    (files.write_latest if kind in ("update", "goodbye") else files.write_beside)(saved)


def test_scores_together_and_alone_stand_side_by_side_with_the_choosers_sentence(
    tmp_path: Path, model: tuple[ModelSpec, State]
) -> None:
    """Of 100 samples each: together 44, alone 89, on validation samples 45 and 90."""
    folder = state_folder(tmp_path)
    save(folder, model, "goodbye", 5, 44, 45)
    save(folder, model, "alone", 4, 89, 90)
    overview = HomeFollower(folder).refresh()
    context = context_of(overview)
    assert [(one.name, one.test.accuracy) for one in overview.candidates if one.test] == [
        ("federated", 0.44),
        ("alone", 0.89),
    ]
    assert context["is_better_alone"]
    assert "your own model is better; export takes it" in context["choice_words"][0]
    assert (overview.federated_round, overview.alone_round, overview.finished) == (5, 5, True)


@pytest.mark.parametrize(
    ("similarity", "said"), [(0.3, "similarity 0.30 to the most similar one"), (0.9, None), (None, None)]
)
def test_a_participant_that_fits_nobody_is_informed(
    tmp_path: Path, model: tuple[ModelSpec, State], similarity: float | None, said: str | None
) -> None:
    folder = state_folder(tmp_path)
    (folder / "state" / "wards" / "agreement.json").write_text('{"participant": "east"}')
    save(folder, model, "goodbye", 5, 44, similarity=similarity, mixed_from={"east": 1.0})
    with served(lambda: home_page(folder).app()) as visitor:
        page = visitor.ask().text
    assert ("differ from those of all other members" in page) is (said is not None)
    if said is not None:
        assert said in page
        assert "takes nothing from others" in page
    assert context_of(HomeFollower(folder).refresh())["shown_round"] == 5


def test_progress_and_finished_rounds_are_shown_as_they_were_told(tmp_path: Path) -> None:
    """Round 2 of 4 begins with a model of 70 %, that of round 1; half of round 3 is trained."""
    folder = state_folder(tmp_path)
    tell = noting(folder)
    tell(Progress(round_no=1, rounds=4, epoch=1, epochs=1, loss=0.5, accuracy=0.7))
    noting(folder)(Progress(round_no=2, rounds=4, epoch=0, epochs=2, batch=10, batches=10))
    overview = HomeFollower(folder).refresh()
    assert (overview.round, overview.rounds, overview.done, overview.scores) == (3, 4, 0.5, ((1, 0.7),))
    assert headline(overview) == "Round 3 of 4: training."


def test_what_was_told_of_an_earlier_run_is_not_shown(tmp_path: Path) -> None:
    folder = state_folder(tmp_path)
    noting(folder)(Progress(round_no=1, rounds=4, loss=0.5, accuracy=0.7))
    (folder / "state" / "current").write_text("other\n")
    assert (HomeFollower(folder).refresh().round, HomeFollower(folder).refresh().scores) == (0, ())


def test_a_note_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    noting(tmp_path / "missing")(Progress(round_no=1, rounds=4, loss=0.5))
    assert not (tmp_path / "missing").exists()


def test_the_ledger_counts_every_message_across_files_that_are_put_aside(tmp_path: Path) -> None:
    (tmp_path / "sent-000001.jsonl").write_text(sent("hello", 100))
    current = tmp_path / "sent.jsonl"
    current.write_text(sent("update", 1000, round=0, names=["w", "b"]))
    ledger = SentLedger(tmp_path)
    ledger.read()
    with current.open("a") as file:
        file.write(sent("update", 1000, round=1) + '{"torn')
    current.rename(tmp_path / "sent-000002.jsonl")
    current.write_text(sent("heartbeat", 50))
    ledger.read()
    found = {one.kind: (one.messages, one.size_bytes) for one in ledger.totals()}
    assert found == {"update": (2, 2000), "hello": (1, 100), "heartbeat": (1, 50)}
    assert [one.kind for one in ledger.latest] == ["hello", "update", "update", "heartbeat"]
    assert ledger.latest[1].tensors == ("w", "b")


def test_the_page_shows_the_ledger_and_escapes_names(tmp_path: Path) -> None:
    folder = state_folder(tmp_path)
    with (folder / "sent.jsonl").open("a") as file:
        file.write(sent("update", 1000, round=0, names=["<script>"]))
    with served(lambda: home_page(folder).app()) as visitor:
        text = visitor.ask().text
    assert "update</strong> of round 1, 1.0" in text
    assert "&lt;script&gt;" in text
    assert "<script>" not in text


def test_a_folder_of_no_participant_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the state folder of"):
        HomeFollower(tmp_path).refresh()


def test_the_pages_process_loads_no_torch() -> None:
    program = "import sys; import participant.page.serving; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
