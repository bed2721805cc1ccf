"""Claims about run folders: what is kept, what is forgotten, and which figures are the headline."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation
from fedap_core.strategies import Mixing
from scripts.run.records import ClientScore, RoundRecord
from scripts.run.run_folder import RunFolder
from tests.support.cohorts import small_run, wait_until


def folder_with(
    root: Path,
    test: list[list[float]],
    *,
    validation: list[list[float]] | None = None,
    rounds: int | None = None,
    evaluate_every: int = 1,
    keep_models: bool = False,
) -> RunFolder:
    """A run whose rounds have the given accuracies per client; an empty list is a round without evaluation."""
    settings = small_run("fedbn", rounds=rounds or len(test), evaluate_every=evaluate_every)
    folder = RunFolder(root, settings)
    folder.begin({}, {"clients": ["c1", "c2"]}, keep_models=keep_models)
    for number, accuracies in enumerate(test):
        found = {"validation": validation[number] if validation is not None else [], "test": accuracies}
        splits = {split: tuple(map(score, values)) for split, values in found.items() if values}
        folder.append(RoundRecord(number=number, splits=splits))
    return folder


def score(accuracy: float) -> ClientScore:
    return ClientScore(correct=round(1_000 * accuracy), samples=1_000)


def save_models(folder: RunFolder, round_no: int) -> None:
    with folder.saving_models(round_no) as half:
        (half / "c1.safetensors").write_text(f"of round {round_no}")


@pytest.mark.parametrize("rounds", [2, 3])
def test_rounds_from_other_data_are_neither_taken_nor_continued(rounds: int, tmp_path: Path) -> None:
    """Two rounds are there: with the first number nothing is missing."""
    folder_with(tmp_path, [[0.5, 0.5]] * 2)
    folder = RunFolder(tmp_path, small_run("fedbn", rounds=rounds))
    worked: list[str] = []
    with pytest.raises(InvalidInput, match=r"clients of synthetic: got 1 \(c1\), expected 2 \(c1, c2\)"):
        folder.make_once({"clients": ["c1"]}, lambda: worked.append("work"))
    assert not worked


def test_mixing_reads_back_to_the_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(4), size=4)
    mixing = Mixing(weights=weights, layers=("a", "b"), distances=rng.random((2, 4, 4)) / 3)
    folder = RunFolder(tmp_path, small_run("fedap"))
    folder.path.mkdir()
    folder.write_mixing(mixing, ["c1", "c2", "c3", "c4"], from_round=0)
    found = folder.read_mixing()
    assert found is not None
    assert found.distances is not None
    assert mixing.distances is not None
    assert found.weights.tobytes() == weights.tobytes()
    assert found.distances.tobytes() == mixing.distances.tobytes()
    assert found.layers == ("a", "b")


def test_run_without_mixing_has_none(tmp_path: Path) -> None:
    assert RunFolder(tmp_path, small_run("fedap")).read_mixing() is None


def test_torn_last_line_is_no_result(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, [[0.5], [0.6]])
    with (folder.path / "rounds.jsonl").open("a") as file:
        file.write('{"round": 2, "test": {"accur')
    assert [record["round"] for record in folder.rounds()] == [0, 1]
    assert not RunFolder(tmp_path, small_run("fedbn", rounds=3)).is_complete()


def test_begin_forgets_what_lies_behind_the_last_saved_models(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, [[0.1], [0.2], [0.3], [0.4]])
    save_models(folder, 1)
    assert folder.begin({}, {"clients": ["c1"]}, keep_models=True) == 2
    assert [record["round"] for record in folder.rounds()] == [0, 1]


def test_run_that_saved_no_models_begins_at_the_beginning(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, [[0.1], [0.2]])
    assert folder.begin({}, {"clients": ["c1"]}, keep_models=True) == 0
    assert folder.rounds() == []


def test_only_the_newest_models_are_kept(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, [[0.1]] * 4)
    for round_no in (1, 3):
        save_models(folder, round_no)
    assert folder.saved_round() == 3
    assert [path.name for path in (folder.path / "models").iterdir()] == ["round-00003"]
    assert (folder.models(3) / "c1.safetensors").read_text() == "of round 3"


@pytest.mark.parametrize(
    ("recorded", "saved", "keep_models", "complete"),
    [
        (3, 2, True, True),
        (5, 4, True, True),
        (2, 1, True, False),
        (3, 1, True, False),
        (3, None, True, False),
        (3, None, False, True),
        (0, None, True, False),
    ],
)
def test_run_is_complete_with_all_rounds_and_the_models_it_keeps(
    recorded: int, saved: int | None, keep_models: bool, complete: bool, tmp_path: Path
) -> None:
    folder = folder_with(tmp_path, [[0.5]] * recorded, rounds=3, keep_models=keep_models)
    if saved is not None:
        save_models(folder, saved)
    assert folder.is_complete() is complete


def test_complete_run_stays_complete_without_its_models(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, [[0.5]] * 3, keep_models=True)
    save_models(folder, 1)
    folder.drop_models()
    assert folder.saved_round() == 1  # not complete: it resumes from there
    save_models(folder, 2)
    folder.drop_models()
    assert folder.is_complete()
    assert sorted(path.name for path in folder.path.iterdir()) == [".lock", "rounds.jsonl", "settings.json"]
    assert len(folder.records()) == 3


def test_models_of_a_longer_run_are_not_dropped_for_a_shorter_one(tmp_path: Path) -> None:
    longer = folder_with(tmp_path, [[0.5]] * 4, rounds=6, keep_models=True)
    save_models(longer, 3)
    shorter = RunFolder(tmp_path, small_run("fedbn", rounds=3))
    assert shorter.path == longer.path
    assert shorter.is_complete()
    shorter.drop_models()
    assert longer.saved_round() == 3


def test_headline_counts_every_client_alike(tmp_path: Path) -> None:
    """Last round (0.9 + 0.3) / 2 = 0.6; mean of rounds 0.5 and 0.6 is 0.55; 0.5 < 0.95 * 0.6, so round 2 converged."""
    summary = folder_with(tmp_path, [[0.5, 0.5], [0.9, 0.3]]).summary()
    assert summary.last == pytest.approx(0.6)
    assert summary.tail == pytest.approx(0.55)
    assert summary.per_client == (0.9, 0.3)
    assert summary.converged == 2
    assert summary.selected is None
    assert [number for number, _ in summary.curve] == [0, 1]
    assert [value for _, value in summary.curve] == pytest.approx([0.5, 0.6])


def test_tail_is_the_mean_of_the_last_ten_rounds(tmp_path: Path) -> None:
    """Rounds 0 .. 11 with accuracy r / 20: the mean of 2 .. 11 is 6.5 / 20."""
    assert folder_with(tmp_path, [[number / 20] for number in range(12)]).summary().tail == pytest.approx(0.325)


def test_selected_figure_is_the_test_accuracy_of_the_best_validation_round(tmp_path: Path) -> None:
    """Validation is best in round 1, test in round 0 and worst in round 1: what is reported is round 1's test."""
    folder = folder_with(tmp_path, [[0.9], [0.5], [0.8]], validation=[[0.6], [0.7], [0.65]])
    assert folder.summary().selected == 0.5
    assert folder.summary().last == 0.8


def test_shorter_request_is_answered_from_a_longer_run(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, [[0.2], [0.4], [0.9]], rounds=2)
    assert folder.is_complete()
    assert folder.summary().last == 0.4
    assert [number for number, _ in folder.summary().curve] == [0, 1]


def test_shorter_request_is_refused_where_the_longer_run_skipped_its_evaluations(tmp_path: Path) -> None:
    """A run of 16 rounds that evaluates every 4th and the last ten has no figure for round 2, the last of three."""
    test = [[0.5] if number == 3 or number >= 6 else [] for number in range(16)]
    assert folder_with(tmp_path, test, evaluate_every=4).summary().last == 0.5
    shorter = RunFolder(tmp_path, small_run("fedbn", rounds=5, evaluate_every=4))
    with pytest.raises(InvalidInput, match="round 1 it did not"):
        shorter.summary()


def test_run_without_any_evaluation_has_no_summary(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="at least one evaluated round"):
        folder_with(tmp_path, [[]]).summary()


def test_settings_of_a_run_are_stored_next_to_its_results(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, [[0.5]])
    described = json.loads((folder.path / "settings.json").read_text())
    assert described["settings"] == folder.settings.model_dump(mode="json")
    assert folder.members() == ["c1", "c2"]


def test_line_of_a_round_has_lists_in_client_order_and_reads_back_as_it_was() -> None:
    """Matrix [[2, 1], [0, 1]]: 3 of 4 correct; F1 of class 0 is 4 / 5, of class 1 2 / 3, their mean 11 / 15; recalls
    2 / 3 and 1, balanced accuracy 5 / 6."""
    evaluation = Evaluation(samples=4, correct=3, loss=0.25, confusion=np.array([[2, 1], [0, 1]]))
    kept, plain = ClientScore.of(evaluation, evaluation.confusion), ClientScore.of(evaluation)
    record = RoundRecord(number=3, phase="mixed", train_loss=(0.5,), splits={"test": (kept,)}, up=(7,), down=(8,))
    line = json.loads(record.line())
    assert list(line) == ["round", "phase", "train_loss", "test", "bytes"]
    assert line["test"] == {
        "accuracy": [0.75], "macro_f1": [pytest.approx(11 / 15)], "loss": [0.25], "samples": [4],
        "balanced_accuracy": [pytest.approx(5 / 6)],
        "confusion": [[[2, 1], [0, 1]]],
    }  # fmt: skip
    assert RoundRecord.of_line(record.line()) == record
    assert kept.balanced_accuracy == pytest.approx(5 / 6)
    assert "confusion" not in json.loads(RoundRecord(number=0, splits={"test": (plain,)}).line())["test"]


def test_second_process_waits_for_the_folder_until_the_first_lets_go(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, small_run("fedbn"))
    begun, entered = tmp_path / "begun", tmp_path / "entered"

    def second() -> None:
        begun.touch()
        with folder.alone():
            entered.touch()

    process = multiprocessing.get_context("fork").Process(target=second)
    with folder.alone():
        process.start()
        wait_until(begun.exists, "the second process")
        process.join(timeout=0.2)
        assert process.is_alive()
        assert not entered.exists()
    process.join(timeout=60)
    assert entered.exists()
