"""Claims about `fedap-lab bench`: every part runs for real, if tiny, and leaves table and JSON. No figure is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from protocol.encodings import ENCODINGS
from scripts.bench.parts import PARTS
from tests.architecture.sources import ROOT


def run_bench(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "scripts.lab",
        "bench",
        *arguments,
        "--quick",
        "--out",
        str(tmp_path / "bench.json"),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)


@pytest.mark.slow
@pytest.mark.parametrize("part", [name for name, part in PARTS.items() if not part.alone])
def test_quick_part_measures_something_and_cleans_up(part: str, tmp_path: Path) -> None:
    done = run_bench(tmp_path, part, "--passes", "2")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "bench.json").read_text())
    (measured,) = record["parts"].values()
    assert all(finding["low"] <= finding["value"] <= finding["high"] for finding in measured["findings"])
    assert all(one["values"] and min(one["values"]) > 0.0 for one in measured["series"])
    assert measured["noise"].startswith("Noise: passes of the same thing")
    rows = [line for line in done.stdout.splitlines() if line.startswith(f"| {part} |")]
    assert len(rows) == len(measured["findings"]) > 0
    assert {"processor", "cores", "load_average", "versions"} <= record["machine"].keys()
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]


@pytest.mark.slow
def test_bytes_of_every_encoding_are_compared_and_finished_runs_are_used_again(tmp_path: Path) -> None:
    first, second = run_bench(tmp_path, "bytes"), run_bench(tmp_path, "bytes")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert "after 2 rounds" in first.stdout
    assert "after 2 rounds" not in second.stdout
    kept = tmp_path / "bench-bytes"
    rows = (kept / "bytes.md").read_text().splitlines()
    assert [row.split("`")[1] for row in rows[2:]] == list(ENCODINGS)
    assert (kept / "bytes.png").stat().st_size > 0
    findings = json.loads((tmp_path / "bench.json").read_text())["parts"]["bytes"]["findings"]
    shares = [one["value"] for one in findings if "bytes" in one["what"]]
    *most, topk, coarse = shares
    assert [*most, topk] == sorted([*most, topk], reverse=True)
    assert topk < 0.5
    assert coarse < 0.5  # in so few rounds most of its bytes are those of the first model


@pytest.mark.slow
def test_two_parts_share_one_table_and_one_file(tmp_path: Path) -> None:
    done = run_bench(tmp_path, "step", "aggregate", "--passes", "1")
    assert done.returncode == 0, done.stderr
    assert list(json.loads((tmp_path / "bench.json").read_text())["parts"]) == ["aggregate", "step"]
    assert done.stdout.count("| part | measured side by side |") == 1
    assert "QUICK" in done.stdout
