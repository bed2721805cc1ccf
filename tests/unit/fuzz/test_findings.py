"""Findings: made shorter without losing the fault, written, read, replayed; a run goes on where it ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from scripts.fuzz import running
from scripts.fuzz.coverage import require_atheris
from scripts.fuzz.findings import Finding, fault_of, shortened
from scripts.fuzz.shares import REAL_LIMITS, SHARES, shared
from scripts.fuzz.targets import Operation

CASES = 20_000


class Fragile:
    """A target that breaks on a 7 which comes after a 3."""

    EPISODE = 10

    def begin(self, start: int) -> None:
        self._warned = start < 0

    def draw(self) -> Operation:
        return ("number", 1)

    def apply(self, operation: Operation) -> None:
        self._warned = self._warned or operation[1] == 3
        if self._warned and operation[1] == 7:
            raise ZeroDivisionError("a 7 after a 3")


def test_finding_is_shortened_to_what_is_needed() -> None:
    operations = [("number", one) for one in (1, 7, 2, 3, 5, 6, 8, 9, 7)]
    assert shortened(Fragile(), 0, operations) == (("number", 3), ("number", 7))


def test_finding_survives_its_file(tmp_path: Path) -> None:
    operations: tuple[Operation, ...] = (("hear", "a#1", (b"\x00\xff", b"")), ("time", 0.5))
    finding = Finding(target="codec", seed=1, episode=2, start=3, operations=operations, error="E in f:g: x")
    assert Finding.read(finding.save(tmp_path)) == finding


def test_file_that_is_no_finding_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "codec-1-1.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(InvalidInput, match="finding"):
        Finding.read(path)


def test_fault_names_what_was_raised_and_where() -> None:
    fault = fault_of(Fragile(), 0, [("number", 3), ("number", 7)])
    assert fault == "ZeroDivisionError in test_findings.py:apply: a 7 after a 3"
    assert fault_of(Fragile(), 0, [("number", 7)]) == ""


def test_run_continues_where_it_ended(tmp_path: Path) -> None:
    once = running.run("codec", cases=3000, seed=5, folder=tmp_path / "once")
    running.run("codec", cases=1000, seed=5, folder=tmp_path / "twice")
    twice = running.run("codec", cases=3000, seed=5, folder=tmp_path / "twice")
    assert (twice.cases, twice.episodes) == (once.cases, once.episodes) == (3000, 3)
    assert twice.findings == []


def test_all_cases_are_shared_among_all_targets() -> None:
    parts = shared(10_000_000, "all")
    assert parts.keys() == SHARES.keys()
    assert sum(parts.values()) == pytest.approx(10_000_000)


@pytest.mark.parametrize("targets", [sorted(REAL_LIMITS), sorted(SHARES.keys() - REAL_LIMITS)], ids=["wire", "tiny"])
def test_nothing_but_the_protocols_own_errors_comes_out(targets: list[str], tmp_path: Path) -> None:
    cases = [f"{target}={shared(CASES, 'all')[target]}" for target in targets]
    command = [sys.executable, "-m", "scripts.fuzz", *cases, "--seed", "1", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.stdout.count("nothing found") == len(targets), done.stdout + done.stderr
    assert done.returncode == 0


def test_missing_extra_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(InvalidInput, match=r"pip install 'fedap\[fuzz\]'"):
        require_atheris()
