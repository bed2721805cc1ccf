"""Damaged files: one line that names the file, its line and the way out; never the words of a library."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from scripts.report.page.finding import find_runs
from tests.support.lab import lab_process
from tests.support.report_runs import WEIGHTS, write_run

_ROUND = '{"round": 1, "test": {"accuracy": [1.2, 1, 1], "samples": [100, 100, 100]}}\n'


def run_in(root: Path) -> Path:
    return write_run(root, "fedap", [[40, 40, 40], [50, 50, 50]], weights=WEIGHTS)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("settings.json", "[]", "settings.json: got fields of another kind"),
        ("settings.json", "{}", "settings.json: got no field 'settings'"),
        ("settings.json", '{\n "settings": {,', "settings.json, line 2: got invalid JSON from column 15 on"),
        ("settings.json", '{"settings": [], "cohort": []}', "settings.json: got fields of another kind"),
        ("mixing.json", "[]", "mixing.json: got fields of another kind"),
        ("mixing.json", '{"weights": [[1, 2], [3]]}', "mixing.json: got fields of another kind"),
        ("mixing.json", '{"weights": [[1, 2]]}', "mixing.json: mixing.weights: got shape (1, 2)"),
        ("rounds.jsonl", '{"round": 0}\n[]\n', "rounds.jsonl, line 2: got fields of another kind"),
        ("rounds.jsonl", "{}\n", "rounds.jsonl, line 1: got no field 'round'"),
        ("rounds.jsonl", '{"round": 0}\n{"round"\n', "rounds.jsonl, line 2: got invalid JSON"),
        ("rounds.jsonl", '{"round": 0}\n' + _ROUND, "rounds.jsonl, line 2: score: got 120 of 100"),
        ("rounds.jsonl", _ROUND.replace("1.2", "Infinity"), "rounds.jsonl, line 1: got fields of another kind"),
        ("rounds.jsonl", _ROUND.replace("1.2, ", ""), "rounds.jsonl, line 1: got fields of another kind"),
    ],
)
def test_damage_is_reported_by_file_and_line(tmp_path: Path, file: str, text: str, said: str) -> None:
    folder = run_in(tmp_path)
    (folder / file).write_text(text)
    with pytest.raises(InvalidInput) as raised:
        find_runs([tmp_path])
    assert f"{folder}/{said}" in str(raised.value)
    assert "Error" not in str(raised.value)
    assert str(raised.value).endswith("leave this folder out of the report.")


def test_bytes_that_are_no_text_are_reported(tmp_path: Path) -> None:
    (run_in(tmp_path) / "rounds.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(InvalidInput, match=r"rounds.jsonl: got bytes that are not text"):
        find_runs([tmp_path])


def test_files_that_do_not_fit_together_are_reported_with_their_folder(tmp_path: Path) -> None:
    folder = run_in(tmp_path)
    (folder / "mixing.json").write_text('{"weights": [[1, 0], [0, 1]]}')
    with pytest.raises(InvalidInput, match=r"fedap-s0: fedap-s0: got W over 2, expected W over its 3 clients"):
        find_runs([folder])


def cut_line(folder: Path) -> None:
    (folder / "rounds.jsonl").write_text('{"round": 0,\n')


def make_list(folder: Path) -> None:
    (folder / "settings.json").write_text(json.dumps([]))


@pytest.mark.parametrize("damage", [cut_line, make_list])
def test_command_ends_with_one_line_and_code_two(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = run_in(tmp_path)
    damage(folder)
    with lab_process("report", str(tmp_path), "--out", str(tmp_path / "r.html"), cwd=tmp_path) as process:
        out, complaint = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert complaint.startswith(f"error: {folder}/")
    assert complaint.count("\n") == 1
    assert not (tmp_path / "r.html").exists()
