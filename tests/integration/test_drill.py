"""Claims about the drill as a command: a healthy federation survives it, and a fault in one is found and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.drill.ability import impossible_kinds
from scripts.drill.schedule import DEFAULT_KINDS, SEALED_KINDS
from tests.support.lab import lab_process

KILLS_A_MEMBER_IN_THE_MIDDLE = 42
"""A seed of kind `step`, small model, plain lines: member a dies before the 30th of the 44 steps of its record, when it
has reported on two of four rounds, and twice more early in its next lives."""


def drill(out: Path, *arguments: str, function: str = "main") -> tuple[int, str]:
    asked = ("drill", "--out", str(out), "--jobs", "1", *arguments)
    with lab_process(*asked, cwd=out, env={"COLUMNS": "200"}, function=function) as process:
        said = "".join(process.communicate())
        assert process.returncode is not None
        return process.returncode, said


def test_a_killed_federation_survives_its_drill_and_is_not_drilled_twice(tmp_path: Path) -> None:
    code, said = drill(tmp_path, "--count", "1", "--kind", "kill", "--model", "small")
    assert code == 0, said
    (line,) = (tmp_path / "drills.jsonl").read_text().splitlines()
    assert json.loads(line)["survived"]
    assert not list((tmp_path / "drills").iterdir())
    assert drill(tmp_path, "--count", "1", "--kind", "kill", "--model", "small")[0] == 0
    assert (tmp_path / "drills.jsonl").read_text().splitlines() == [line]


def test_a_sealed_federation_survives_kills_and_broken_lines(tmp_path: Path) -> None:
    code, said = drill(tmp_path, "--sealed", "--replay", "0", "--kind", "mixed")
    assert code == 0, said
    assert "sealed: 1 of 1 passed" in said


def test_participants_that_forget_are_found_and_the_seed_is_reported(tmp_path: Path) -> None:
    asked = ("--replay", str(KILLS_A_MEMBER_IN_THE_MIDDLE), "--kind", "step", "--model", "small", "--no-curve")
    code, said = drill(tmp_path, *asked, function="forgetful")
    assert code == 1, said
    assert f"failed: fedap-lab drill {' '.join(asked)} --mode barrier" in said
    assert "final model differs" in said or "did not end" in said or "exit code" in said
    (kept,) = (tmp_path / "drills").iterdir()
    assert (kept / "coordinator.log").exists()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all kinds, so that undisturbed runs are made once."""
    return tmp_path_factory.mktemp("drills")


@pytest.mark.slow
@pytest.mark.parametrize("kind", DEFAULT_KINDS)
def test_every_kind_of_drill_passes(shared: Path, kind: str) -> None:
    """The seed's two lowest bits choose model and line: they alternate from kind to kind."""
    if reason := impossible_kinds().get(kind):
        pytest.skip(reason)
    code, said = drill(shared, "--kind", kind, "--replay", str(1000 + DEFAULT_KINDS.index(kind)))
    assert code == 0, said


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEALED_KINDS)
def test_every_kind_of_drill_passes_sealed(shared: Path, kind: str) -> None:
    if reason := impossible_kinds().get(kind):
        pytest.skip(reason)
    code, said = drill(shared, "--sealed", "--kind", kind, "--replay", str(2000 + SEALED_KINDS.index(kind)))
    assert code == 0, said
