"""Claims about data that are missing: how to get them is said exactly, and a stand-in keeps its own name."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from scripts.experiments.reproduce.catalogue import TARGETS
from scripts.experiments.reproduce.choice import MissingData, choose
from scripts.experiments.reproduce.data_sets import DATA_SETS
from scripts.lab import main
from tests.support.cohorts import run_command

PAPER_TITLES = ("PAMAP2", "COVID-19", "OrganCMNIST", "OrganSMNIST", "OrganAMNIST")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder."""
    monkeypatch.setenv("FEDAP_DATA", str(tmp_path))
    return tmp_path


def put(folder: Path, *names: str) -> None:
    """Make the path that the loader of each set reads."""
    for name in names:
        (folder / DATA_SETS[name].file).mkdir(parents=True)


@pytest.mark.parametrize(
    ("target", "missing", "place", "offered"),
    [
        ("pamap2", "PAMAP2_Dataset.zip", "PAMAP2_Dataset/Protocol", "--data har"),
        ("covid", "10.17632/9xkhgts2s6", "Curated X-Ray Dataset", "--data chest"),
    ],
)
def test_missing_set_is_reported_with_its_place_and_its_stand_in(
    folder: Path, target: str, missing: str, place: str, offered: str
) -> None:
    put(folder, "har", "chest")
    outcome = run_command(main, "reproduce", target, "--out", str(folder / "out"))
    assert outcome.is_one_clear_line, outcome.complaint
    assert missing in outcome.complaint
    assert str(folder / place) in outcome.complaint
    assert f"fedap-lab reproduce {target} {offered}" in outcome.complaint
    assert not (folder / "out").exists()


@pytest.mark.parametrize("target", ["organc", "organs"])
def test_organamnist_is_offered_for_the_other_organ_sets(folder: Path, target: str) -> None:
    put(folder, "organamnist")
    wanted = DATA_SETS[TARGETS[target].needs[0]]
    assert wanted.stand_ins[0] == "organamnist"
    choice = choose(TARGETS[target], [], quick=True)
    assert choice.stem == "accuracy-organamnist-quick"
    assert str(folder / wanted.file) in choice.remarks[0]
    assert "https://" in choice.remarks[0]
    assert choice.notes == (f"{wanted.title} was not available; shown instead, under its own name: OrganAMNIST.",)


def test_without_any_real_data_the_watch_stands_in_for_sensors_and_synthetic_for_images(folder: Path) -> None:
    choice = choose(TARGETS["weighting"], [], quick=True)
    assert [one.name for one in choice.data] == ["watch", "synthetic"]
    assert choice.stem == "weighting-watch-synthetic-quick"


@pytest.mark.parametrize("name", TARGETS)
def test_a_stand_in_is_never_shown_under_the_name_of_the_missing_set(folder: Path, name: str) -> None:
    choice = choose(TARGETS[name], [], quick=True)
    assert not set(TARGETS[name].needs) & {one.name for one in choice.data}
    assert not any(title in choice.title for title in PAPER_TITLES)
    assert all(one.name in choice.stem for one in choice.data)
    assert not any(flag in choice.stem for flag in ("pamap2", "covid", "organ"))


def test_the_paper_s_own_set_takes_the_target_s_own_name(folder: Path) -> None:
    put(folder, "organamnist", "pamap2")
    assert choose(TARGETS["organa"], [], quick=False).stem == "organa"
    assert choose(TARGETS["organa"], [], quick=True).stem == "organa-quick"
    assert choose(TARGETS["organa"], ["organamnist"], quick=False).stem == "organa"
    assert choose(TARGETS["organa"], ["pamap2"], quick=False).stem == "accuracy-pamap2"
    assert choose(TARGETS["pamap2"], ["watch"], quick=False).stem == "accuracy-watch"


def test_a_target_of_several_sets_runs_those_present_and_names_those_absent(folder: Path) -> None:
    put(folder, "pamap2")
    choice = choose(TARGETS["weighting"], [], quick=False)
    assert ([one.name for one in choice.data], choice.stem) == (["pamap2"], "weighting")
    (remark,) = choice.remarks
    assert remark.startswith("COVID-19 is not available")
    assert "--data synthetic" in remark
    assert choice.notes == ("COVID-19 is not shown, because it was not available.",)


@pytest.mark.parametrize(
    ("target", "asked", "note"),
    [
        (
            "alpha",
            ["organamnist"],
            "Shown here: only OrganAMNIST of the paper's OrganAMNIST, OrganCMNIST, OrganSMNIST.",
        ),
        (
            "weighting",
            ["pamap2", "har"],
            "Shown here: only PAMAP2 of the paper's PAMAP2, COVID-19; other data: UCI HAR.",
        ),
        (
            "weighting",
            ["pamap2", "covid", "har"],
            "Shown here: PAMAP2, COVID-19 of the paper's PAMAP2, COVID-19; other data: UCI HAR.",
        ),
        ("weighting", ["har", "chest"], "The paper shows PAMAP2, COVID-19 here; these are other data."),
        ("weighting", ["covid", "pamap2"], None),
        ("convergence", ["har"], None),
    ],
)
def test_page_tells_the_paper_s_sets_from_others(folder: Path, target: str, asked: list[str], note: str | None) -> None:
    """The paper does not say on which data it shows convergence, so no set is another one there."""
    put(folder, *asked)
    assert choose(TARGETS[target], asked, quick=False).notes == (() if note is None else (note,))


def test_figures_whose_data_the_paper_does_not_name_are_named_by_ours(folder: Path) -> None:
    put(folder, "organamnist")
    assert choose(TARGETS["convergence"], [], quick=False).stem == "convergence-organamnist"


def test_stand_in_asked_for_by_name_that_is_absent_itself_is_told_too(folder: Path) -> None:
    with pytest.raises(MissingData, match=r"uci_har\.npz.*--data watch"):
        choose(TARGETS["pamap2"], ["har"], quick=False)


def test_one_table_shows_one_data_set(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="one data set"):
        choose(TARGETS["pamap2"], ["watch", "synthetic"], quick=False)


def test_a_file_of_one_s_own_gives_a_name_that_is_a_file_name(folder: Path) -> None:
    choice = choose(TARGETS["lambda"], ["/data/my set.npz"], quick=False)
    assert choice.stem == "lambda-_data_my_set_npz"
