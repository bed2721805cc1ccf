"""Sealed scores: the coordinator's status, page and report say that they are sealed and go on; a member opens them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from coordinator.cli import main as coordinator_main
from coordinator.page.serving import run_page
from coordinator.watching.following import RunFollower
from fedap_core.errors import InvalidInput
from participant.cli import main as participant_main
from participant.sealing.group_key import make_group_key
from participant.sealing.opened_scores import Seal
from scripts.lab import main as lab_main
from scripts.report.page.finding import find_runs
from tests.support.cohorts import run_command, small_run
from tests.support.players import Reference, run_reference
from tests.support.sealing import KEY_FILE, joining, sealed_file
from tests.support.web import served
from tests.support.whole_runs import run_to_its_end

ROUNDS = 2


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Reference]:
    folder = tmp_path_factory.mktemp("sealed")
    reference = run_reference(folder / "inline", small_run("fedap", rounds=ROUNDS))
    key = make_group_key(folder / KEY_FILE)
    config = sealed_file(folder, reference, key, scores="sealed")
    run_to_its_end(folder, reference, config, *joining(folder, reference))
    return folder, reference


def test_status_and_page_say_that_scores_are_sealed(finished: tuple[Path, Reference]) -> None:
    folder, _ = finished
    shown = run_command(coordinator_main, "status", str(folder / "run"))
    assert (shown.code, shown.complaint) == (0, "")
    assert "Scores are sealed; members can read them with `fedap-participant scores`." in shown.out
    overview = RunFollower(folder / "run").refresh()
    assert overview.scores_sealed
    assert overview.weights_members == ("c1", "c2", "c3")
    assert all(sum(row) == pytest.approx(1.0) for row in overview.weights)
    with served(lambda: run_page(folder / "run").app()) as visitor:
        assert "Scores are sealed" in visitor.ask("/").text


def test_a_member_makes_the_report_with_the_opened_scores(finished: tuple[Path, Reference]) -> None:
    folder, reference = finished
    options = ("--group-key", str(folder / KEY_FILE), "--state", str(folder / "c1"))
    done = run_command(lab_main, "report", str(folder / "run"), "--out", str(folder / "own.html"), *options)
    assert (done.code, done.complaint) == (0, "")
    (run,) = find_runs([folder / "run"], seal=Seal(state=folder / "c1", key_file=folder / KEY_FILE))
    shown = run_command(participant_main, "scores", "--folder", str(folder / "run"), *options)
    table = list(csv.DictReader(io.StringIO(shown.out)))
    assert {line["participant"] for line in table} == set(reference.names)
    last = {line["participant"]: line for line in table if (line["round"], line["split"]) == (str(ROUNDS), "test")}
    told = run.rounds[-1].splits["test"]
    assert [(one.correct, one.samples) for one in told if one is not None] == [
        (int(last[name]["correct"]), int(last[name]["samples"])) for name in reference.names
    ]
    assert run.mixing is not None
    assert run.mixing.weights.diagonal().tolist() == [0.5, 0.5, 0.5]


def test_without_the_key_a_report_says_so(finished: tuple[Path, Reference]) -> None:
    folder, _ = finished
    done = run_command(lab_main, "report", str(folder / "run"), "--out", str(folder / "blind.html"))
    assert done.is_one_clear_line
    assert "--group-key" in done.complaint


def test_another_key_opens_nothing(finished: tuple[Path, Reference], tmp_path: Path) -> None:
    folder, _ = finished
    make_group_key(tmp_path / KEY_FILE)
    with pytest.raises(InvalidInput, match="sealed under this key"):
        find_runs([folder / "run"], seal=Seal(state=folder / "c1", key_file=tmp_path / KEY_FILE))
