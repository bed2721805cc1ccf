"""Claims about verdicts: what a drill may cost and how it may end, fault by fault."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fedap_core.errors import InvalidInput
from scripts.drill.judge import MIB, DrillOutcome, judge
from scripts.drill.record import DrillRecord, append, read_records, record_of
from scripts.drill.spec import Drill
from scripts.drill.table import show

QUIET = DrillOutcome(
    models={"a": {"w": "1", "bn": "2"}, "b": {"w": "3", "bn": "4"}},
    codes={"coordinator": 0, "a": 0, "b": 0},
    seconds=1.0,
    struck=0,
    memory_bytes={"coordinator": 100 * MIB, "a": 200 * MIB},
    files={"coordinator": 20},
    log_bytes={"coordinator": 1000},
    line_bytes={},
)
DRILL = Drill(seed=12, kind="cut", model_bytes=16_384, curve=False)


def test_the_same_end_is_survived() -> None:
    verdict = judge(replace(QUIET, struck=3), QUIET, same_bits=True)
    assert verdict.survived
    assert (verdict.memory_growth_bytes, verdict.log_bytes) == (0, 1000)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"models": {**QUIET.models, "a": {"w": "1", "bn": "9"}}}, "a's final model differs .* in bn"),
        ({"models": {"a": QUIET.models["a"]}}, "b has no final model"),
        ({"models": {**QUIET.models, "a": {"w": "1"}}}, "other tensors"),
        ({"codes": {**QUIET.codes, "b": None}}, "b did not end"),
        ({"codes": {**QUIET.codes, "b": 1}}, "b ended with exit code 1"),
        ({"codes": {**QUIET.codes, "coordinator": -6}}, "coordinator was ended by signal 6"),
        ({"memory_bytes": {"a": 265 * MIB}}, "a needed 65 MiB more"),
        ({"files": {"coordinator": 85}}, "85 files open"),
        ({"log_bytes": {"coordinator": 1_000_001}}, "1,000,001 bytes of log"),
        ({"faults": ("a logged an exception",)}, "a logged an exception"),
    ],
)
def test_whatever_is_not_as_undisturbed_is_a_complaint(change: dict[str, object], complaint: str) -> None:
    verdict = judge(replace(QUIET, **change), QUIET, same_bits=True)  # type: ignore[arg-type]
    assert not verdict.survived
    (said,) = verdict.complaints
    assert re.search(complaint, said)


def test_without_a_promise_of_equal_bits_any_whole_model_will_do() -> None:
    other = replace(QUIET, models={**QUIET.models, "a": {"w": "7", "bn": "7"}})
    assert judge(other, QUIET, same_bits=False).survived
    assert not judge(replace(QUIET, models={}), QUIET, same_bits=False).survived


def record(*, survived: bool = True) -> DrillRecord:
    outcome = QUIET if survived else replace(QUIET, codes={**QUIET.codes, "b": None})
    verdict = judge(outcome, QUIET, same_bits=True)
    return record_of(DRILL, (), outcome, verdict, folder=None if survived else Path("/kept"))


def test_records_are_read_back_as_written_but_for_a_cut_off_last_line(tmp_path: Path) -> None:
    path = tmp_path / "drills.jsonl"
    for one in (record(), record(survived=False)):
        append(path, one)
    with path.open("a") as file:
        file.write('{"drill": {"se')
    assert list(read_records(path)) == [record(), record(survived=False)]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "drills.jsonl"
    path.write_text('{"seed": 1}\n')
    with pytest.raises(InvalidInput, match="line 1"):
        list(read_records(path))


def test_the_table_counts_and_says_how_to_repeat_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    show(Console(width=160), [record(), record(survived=False)])
    said = capsys.readouterr().out
    assert "16,384 bytes, plain, barrier: 1 of 2 passed" in said
    assert f"failed: {DRILL.replay}" in said
    assert "b did not end" in said
    assert "logs: /kept" in said
