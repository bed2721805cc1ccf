"""Claims about which parts there are and how they are chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedap_core.errors import InvalidInput
from scripts.bench.parts import PARTS, chosen
from scripts.lab import app
from tests.architecture.sources import ROOT


def test_every_part_is_a_module_that_measures() -> None:
    measuring = {path.stem for path in (ROOT / "scripts/bench").glob("*.py") if "\ndef measure(" in path.read_text()}
    assert measuring == set(PARTS)


def test_no_name_means_every_part_and_names_keep_the_order_of_the_table() -> None:
    assert chosen([]) == [name for name in PARTS if name != "bytes"]
    assert chosen(["bytes"]) == ["bytes"]
    assert chosen(["step", "round"]) == ["round", "step"]


def test_unknown_part_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidInput, match="Did you mean 'startup'"):
        chosen(["start-up"])


def test_help_names_every_part() -> None:
    shown = CliRunner().invoke(app, ["bench", "--help"]).output
    assert [name for name in PARTS if name not in shown] == []


@pytest.mark.parametrize("out", ["none/bench.json", "."])
def test_output_that_cannot_be_written_is_refused_before_anything_runs(out: str, tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["bench", "aggregate", "--quick", "--out", str(tmp_path / out)])
    assert isinstance(ended.exception, InvalidInput)
    assert "existing folder" in str(ended.exception)


def test_whole_bench_is_announced_to_take_about_fifteen_minutes_at_most() -> None:
    assert sum(PARTS[name].seconds for name in chosen([])) <= 15 * 60
