"""Every target in its quick version, whole: trained, drawn and judged on data that come with the installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.experiments.reproduce.catalogue import TARGETS
from scripts.lab import main
from tests.support.cohorts import run_command

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: a target finds the runs that another has made."""
    return tmp_path_factory.mktemp("reproduced")


@pytest.mark.parametrize("name", TARGETS)
def test_quick_version_runs_without_any_data_folder(
    name: str, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDAP_DATA", str(tmp_path))
    outcome = run_command(main, "reproduce", name, "--quick", "--out", str(out))
    assert outcome.code == 0, outcome.complaint
    (page,) = [Path(line.split()[1].rstrip(";")) for line in outcome.out.splitlines() if line.startswith("Page: ")]
    assert page.name.endswith("-quick.md")
    assert ("HELD:" in outcome.out) is (name != "datasets")
    for suffix in (".md", ".csv", ".png", ".svg"):
        assert page.with_suffix(suffix).stat().st_size > 0


def test_second_call_trains_nothing_and_writes_the_same_page(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDAP_DATA", str(tmp_path))
    arguments = ("reproduce", "lambda", "--quick", "--data", "synthetic", "--rounds", "3", "--out", str(out))
    first = run_command(main, *arguments)
    assert first.code == 0, first.complaint
    page = out / "lambda-synthetic-quick.md"
    before = (page.read_bytes(), page.with_suffix(".csv").read_bytes(), page.with_suffix(".svg").read_bytes())
    second = run_command(main, *arguments)
    assert "% after" not in second.out
    assert "3 of 3 runs existed already" in second.out
    assert (page.read_bytes(), page.with_suffix(".csv").read_bytes(), page.with_suffix(".svg").read_bytes()) == before


def test_a_real_federation_of_processes_gives_the_same_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDAP_DATA", str(tmp_path))
    texts = []
    for engine in ("inline", "processes"):
        arguments = ("reproduce", "weighting", "--quick", "--data", "watch", "--rounds", "2", "--engine", engine)
        outcome = run_command(main, *arguments, "--out", str(tmp_path / engine))
        assert outcome.code == 0, outcome.complaint
        texts.append((tmp_path / engine / "weighting-watch-quick.csv").read_text())
    assert texts[0] == texts[1]
