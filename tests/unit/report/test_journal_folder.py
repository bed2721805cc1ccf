"""A coordinator's folder as the report reads it: what the journal tells, and nothing that it does not know."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from coordinator.config import make_config
from coordinator.decisions import facts
from coordinator.record.journal import Draft, SqliteJournal, fields_of
from coordinator.record.store import Store
from fedap_core.errors import InvalidInput
from protocol.messages import Score
from protocol.tensors import TensorSet
from scripts.report.page import write_report
from scripts.report.page.advice import Advice
from scripts.report.page.finding import find_runs
from scripts.report.page.headline import in_words
from scripts.report.page.journal_folder import read_journal_runs
from scripts.report.page.participant_view import View, participant_views
from scripts.report.page.study import make_study
from scripts.run.mixing_record import MixingRecord

MEMBERS = ("north", "south")


def score(correct: int, model: str = "delivered", split: str = "test") -> Score:
    return Score(model=model, split=split, samples=10, correct=correct, loss=0.5, macro_f1=0.5)


def joined(member: str) -> facts.Joined:
    return facts.Joined(member=member, identity=member, software="fedap", train_samples=40, test_samples=10)


def update(member: str, round_no: int, *scores: Score) -> facts.UpdateAccepted:
    return facts.UpdateAccepted(
        member=member, round_no=round_no, steps=3, train_loss=0.1, scores=scores, measured=False, distance=None
    )


def write_journal(
    folder: Path, told: list[tuple[float, facts.Fact]], *, rounds: int = 2, mode: str = "barrier"
) -> Path:
    folder.mkdir(parents=True)
    journal = SqliteJournal(folder / "journal.sqlite")
    fields = {"run": "wards", "folder": str(folder), "initial": "/secret/place/m.safetensors", "rounds": rounds}
    fields["mode"] = mode
    journal.set_metadata("config", make_config(fields).model_dump_json())
    for time_s, fact in told:
        kind, body = fields_of(fact)
        journal.append([Draft(time_s=time_s, kind=kind, body=json.dumps(body).encode())])
    journal.close()
    return folder


def two_rounds() -> list[tuple[float, facts.Fact]]:
    """Round 0 takes 2 s, round 1 takes 5 s; what round 0 delivered is measured in round 1, the last at goodbye."""
    return [
        *((0.0, joined(member)) for member in reversed(MEMBERS)),
        (0.5, facts.Weighed(members=("south", "north"), weights=((0.6, 0.4), (0.3, 0.7)))),
        (1.0, facts.RoundOpened(round_no=0, members=MEMBERS)),
        (2.0, update("south", 0, score(1))),
        (3.0, facts.RoundClosed(round_no=0, reason="all", reported=MEMBERS, missing=())),
        (3.0, facts.RoundOpened(round_no=1, members=MEMBERS)),
        (4.0, update("north", 1, score(5))),
        (8.0, facts.RoundClosed(round_no=1, reason="late", reported=("north",), missing=("south",))),
        *((9.0, facts.GoodbyeAccepted(member=member, round_no=2, scores=(score(8),))) for member in MEMBERS),
    ]


def test_report_starts_with_what_members_that_share_it_reached_alone(tmp_path: Path) -> None:
    """North: 8 of 10 together, 10 alone. South keeps that to itself, and is not like north (0.31)."""
    *told, _, _ = two_rounds()
    told[2] = (0.5, facts.Weighed(members=MEMBERS, weights=((0.6, 0.4), (0.3, 0.7)), similarity=(0.9, 0.31)))
    told += [
        (9.0, facts.GoodbyeAccepted(member="north", round_no=2, scores=(score(8), score(10, "alone")))),
        (9.0, facts.GoodbyeAccepted(member="south", round_no=2, scores=(score(8),))),
    ]
    folder = write_journal(tmp_path / "run", told)
    federated, alone = find_runs([folder])
    assert [one.correct for one in federated.rounds[-1].scores if one is not None] == [8, 8]
    assert [None if one is None else one.correct for one in alone.rounds[-1].scores] == [10, None]
    sentences = in_words(make_study([federated, alone]))
    assert "training alone" in sentences[0]
    assert "south differs from all other clients: similarity 0.31 to the most similar one (1: equal)." in sentences


@pytest.mark.parametrize("mode", ["barrier", "continuous"])
def test_advice_follows_the_validation_samples_that_decide_what_is_exported(tmp_path: Path, mode: str) -> None:
    """North: 9 of 10 against 8 alone on validation samples, 6 against 8 on test samples; south shares nothing."""
    *told, _, _ = two_rounds()
    north = (score(6), score(9, split="validation"), score(8, "alone"), score(8, "alone", "validation"))
    told += [
        (9.0, facts.GoodbyeAccepted(member="north", round_no=2, scores=north)),
        (9.0, facts.GoodbyeAccepted(member="south", round_no=2, scores=(score(8), score(7, split="validation")))),
    ]
    study = make_study(find_runs([write_journal(tmp_path / "run", told, mode=mode)]))
    north_page, south_page = participant_views(study)
    assert advice_of(north_page).headline == "Use the model of FedAP."
    assert advice_of(south_page).headline == "The gain is unknown."


def advice_of(page: View) -> Advice:
    found = page["advice"]
    assert isinstance(found, Advice)
    return found


def test_scores_belong_to_the_round_that_made_the_model(tmp_path: Path) -> None:
    """The model before round 0 is nobody's result; south did not measure what round 0 gave it."""
    run = read_journal_runs(write_journal(tmp_path / "run", two_rounds()))[0]
    assert run.clients == MEMBERS
    assert [[None if one is None else one.correct for one in record.scores] for record in run.rounds] == [
        [5, None],
        [8, 8],
    ]
    assert [record.seconds for record in run.rounds] == [{"round": 2.0}, {"round": 5.0}]
    assert run.is_finished


def test_what_trained_alone_is_a_result_of_its_own_round(tmp_path: Path) -> None:
    told: list[tuple[float, facts.Fact]] = [(0.0, joined("north")), (1.0, update("north", 0, score(4, "trained")))]
    run = read_journal_runs(write_journal(tmp_path / "run", told, rounds=1))[0]
    assert [(record.number, record.mean) for record in run.rounds] == [(0, 0.4)]


def test_members_that_end_in_different_rounds_count_with_their_last_score(tmp_path: Path) -> None:
    """South's last score is 1 of 10, of round 1; north's 8 of 10, of round 3: (0.1 + 0.8) / 2 = 0.45."""
    told: list[tuple[float, facts.Fact]] = [
        *((0.0, joined(member)) for member in MEMBERS),
        (1.0, update("south", 1, score(1))),
        (1.0, update("north", 1, score(3))),
        (2.0, update("north", 2, score(5))),
        (3.0, update("north", 3, score(8))),
    ]
    folder = write_journal(tmp_path / "run", told, rounds=3, mode="continuous")
    run = read_journal_runs(folder)[0]
    assert run.rounds[-1].mean == pytest.approx(0.45)
    assert run.notes == ("Rounds were not synchronised: every client counts with its last score, of rounds 1 to 3.",)
    text = write_report([folder], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "reaches 45.0" in text
    assert "of rounds 1 to 3" in text


def test_mixing_matrix_is_put_into_the_order_of_the_clients(tmp_path: Path) -> None:
    run = read_journal_runs(write_journal(tmp_path / "run", two_rounds()))[0]
    assert isinstance(run.mixing, MixingRecord)
    assert run.mixing.weights.tolist() == [[0.7, 0.3], [0.4, 0.6]]
    assert run.mixing.distances is None


def test_counted_bytes_are_the_participants_up_and_down(tmp_path: Path) -> None:
    folder = write_journal(tmp_path / "run", two_rounds())
    lines = [
        {"closed_round": 0, "bytes": [["north", 0, "in", 7], ["north", 0, "out", 9], ["south", 0, "in", 5]]},
        {"closed_round": 1, "bytes": [["south", 0, "in", 1], ["south", 1, "out", 3]]},
    ]
    (folder / "traffic.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"torn')
    first, second = read_journal_runs(folder)[0].rounds
    assert (first.up, first.down, second.up, second.down) == ((7, 6), (9, 0), (), (0, 3))


def test_damaged_line_of_traffic_is_reported_with_its_number(tmp_path: Path) -> None:
    folder = write_journal(tmp_path / "run", two_rounds())
    (folder / "traffic.jsonl").write_text('{"bytes": []}\n{"bytes": 7}\n')
    with pytest.raises(InvalidInput, match=r"traffic.jsonl, line 2: got fields of another kind"):
        read_journal_runs(folder)


def test_damaged_fact_is_reported_with_its_journal(tmp_path: Path) -> None:
    folder = write_journal(tmp_path / "run", two_rounds())
    journal = SqliteJournal(folder / "journal.sqlite")
    journal.append([Draft(time_s=9.0, kind="Joined", body=b"[")])
    journal.close()
    with pytest.raises(InvalidInput, match=r"journal.sqlite.*leave this folder out"):
        read_journal_runs(folder)


def test_tables_that_members_shared_are_shown(tmp_path: Path) -> None:
    """A matrix whose sums are not the score's belongs to another model and is left out. North has 30 + 8 + 2 samples of
    the first class, for training and for testing."""
    folder = write_journal(tmp_path / "run", two_rounds())
    store = Store(folder)
    for member, wrong in (("north", 2), ("south", 3)):
        confusion = np.array([[8, wrong], [0, 0]])
        tables = {"class_counts": np.array([30, 10]), "confusion/test": confusion}
        store.keep_tables(member, 2, TensorSet.of(tables))
    (folder / "tables/0000002/torn").write_bytes(b"half")
    run = read_journal_runs(folder)[0]
    north, south = run.rounds[1].scores
    assert run.class_counts == ((40, 10), (41, 10))
    assert north is not None
    assert south is not None
    assert (north.confusion, south.confusion) == (((8, 2), (0, 0)), None)


def test_page_of_a_coordinators_run_keeps_its_places_to_itself(tmp_path: Path) -> None:
    folder = write_journal(tmp_path / "run", two_rounds())
    text = write_report([folder], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "wards: 2 clients" in text
    assert "takes 0.4 from north." in text
    assert "secret" not in text
    assert str(tmp_path) not in text


def test_run_that_has_not_begun_is_refused(tmp_path: Path) -> None:
    folder = write_journal(tmp_path / "run", [])
    with pytest.raises(InvalidInput, match="at least one evaluated round"):
        write_report([folder], tmp_path / "report.html")
