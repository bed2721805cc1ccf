"""Claims about data that are replaced under the same name: nothing stored is used for other data than it came from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from scripts.lab import main
from tests.support.cohorts import CommandOutcome, run_command

REMEDY = "The data have changed: use another --out, or delete that"


def write_data(
    path: Path, *, seed: int = 0, sites: int = 3, classes: int = 2, channels: int = 1, flipped: bool = False
) -> None:
    """80 samples a site. flipped: one label is another."""
    rng = np.random.default_rng(seed)
    samples = 80 * sites
    y = np.arange(samples) % classes
    y[0] = (y[0] + flipped) % classes
    x = rng.integers(0, 256, (samples, channels, 16, 16), dtype=np.uint8)
    np.savez(path, allow_pickle=False, x=x, y=y, site=np.repeat(np.arange(sites), 80))


class Lab:
    """Comparisons of one data file into one folder."""

    def __init__(self, base: Path) -> None:
        self.data, self.out = base / "d.npz", base / "out"
        write_data(self.data)

    def compare(self, algorithms: str, *more: str) -> CommandOutcome:
        return run_command(
            main, "compare", "--data", str(self.data), "--partition", "site", "--rounds", "1", "--jobs", "1",
            "--algorithms", algorithms, "--out", str(self.out), *more,
        )  # fmt: skip

    def contents(self) -> Mapping[str, bytes]:
        return {str(path): path.read_bytes() for path in self.out.rglob("*") if path.is_file()}

    def settings(self) -> Path:
        (path,) = self.out.glob("*-base-*/settings.json")
        return path


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A finished run of Base."""
    lab = Lab(tmp_path)
    assert lab.compare("base").code == 0
    return lab


def require_refused(outcome: CommandOutcome, said: str) -> None:
    assert outcome.is_one_clear_line, outcome.complaint
    assert said in outcome.complaint


@pytest.mark.parametrize(
    "changed", [{"seed": 1}, {"flipped": True}, {"sites": 4}, {"classes": 3}, {"channels": 3}], ids=str
)
@pytest.mark.parametrize("algorithms", ["base", "base,fedbn", "fedbn,base"])
def test_runs_of_replaced_data_are_refused_before_anything_is_trained(
    changed: dict[str, int], algorithms: str, lab: Lab
) -> None:
    write_data(lab.data, **changed)  # type: ignore[arg-type]
    before = lab.contents()
    outcome = lab.compare(algorithms)
    require_refused(outcome, f"fingerprint of {lab.data}")
    assert REMEDY in outcome.complaint
    assert "-base-s0-" in outcome.complaint
    assert lab.contents() == before


def test_the_same_data_written_again_are_the_same(lab: Lab) -> None:
    lab.data.unlink()
    write_data(lab.data)
    before = lab.settings().read_bytes()
    assert lab.compare("base,fedbn").code == 0
    assert lab.settings().read_bytes() == before


def test_finished_runs_are_shown_without_their_data(lab: Lab) -> None:
    assert lab.compare("base", "--model", "lenet5").code == 0
    lab.data.unlink()
    outcome = lab.compare("base", "--model", "lenet5")
    assert outcome.code == 0, outcome.complaint
    assert "Stored runs were not compared with the data" in outcome.out


def test_finished_runs_on_different_data_are_not_shown_together(lab: Lab) -> None:
    """Only run folders say so: Base was made before the file was replaced, FedBN after, each by a call of its own."""
    write_data(lab.data, seed=1)
    assert lab.compare("fedbn").code == 0
    lab.data.unlink()
    require_refused(lab.compare("base,fedbn", "--model", "lenet5"), "use another --out")


@pytest.mark.parametrize(("changed", "said"), [({"classes": 3}, "classes of"), ({"channels": 3}, "input shape of")])
def test_an_initial_model_for_data_of_another_kind_is_refused(changed: dict[str, int], said: str, lab: Lab) -> None:
    write_data(lab.data, **changed)  # type: ignore[arg-type]
    outcome = lab.compare("fedbn")
    require_refused(outcome, said)
    assert "initial" in outcome.complaint
    assert not list(lab.out.glob("*-fedbn-*/rounds.jsonl"))


def test_an_anchor_trained_on_other_data_is_refused(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert lab.compare("fedap").code == 0
    write_data(lab.data, seed=1)
    outcome = lab.compare("d-fedap")
    require_refused(outcome, "fingerprint of")
    assert "anchors" in outcome.complaint
    assert not list(lab.out.glob("*-d-fedap-*/rounds.jsonl"))


def test_a_run_that_was_cut_off_does_not_go_on_with_other_data(lab: Lab) -> None:
    write_data(lab.data, seed=1)
    require_refused(lab.compare("base", "--rounds", "2"), "fingerprint of")


@pytest.mark.parametrize(
    ("changed", "accepted"), [({}, True), ({"seed": 1}, True), ({"flipped": True}, False), ({"sites": 4}, False)]
)
def test_runs_of_earlier_versions_are_compared_by_what_they_store(
    changed: dict[str, int], accepted: bool, lab: Lab
) -> None:
    """Without a fingerprint other pixels cannot be told; other class counts and other sites can."""
    described = json.loads(lab.settings().read_text())
    del described["cohort"]["fingerprint"]
    lab.settings().write_text(json.dumps(described))
    write_data(lab.data, **changed)  # type: ignore[arg-type]
    outcome = lab.compare("base,fedbn")
    assert (outcome.code == 0) == accepted, outcome.complaint
    if not accepted:
        require_refused(outcome, REMEDY)


def test_a_leaderboard_is_not_continued_with_other_data(tmp_path: Path) -> None:
    """Refused while runs of an algorithm are missing, and when none are."""
    out = tmp_path / "out"

    def leaderboard(algorithms: str) -> CommandOutcome:
        return run_command(
            main, "leaderboard", "--quick", "--rounds", "1", "--algorithms", algorithms, "--jobs", "1",
            "--out", str(out),
        )  # fmt: skip

    assert leaderboard("base").code == 0
    (settings,) = out.glob("watch-base-*/settings.json")
    described = json.loads(settings.read_text())
    described["cohort"]["fingerprint"] = "0" * 32  # as if these recordings had been others
    settings.write_text(json.dumps(described))
    for algorithms in ("base", "base,fedavg"):
        require_refused(leaderboard(algorithms), "fingerprint of watch")
    shutil.rmtree(settings.parent)
    assert leaderboard("base,fedavg").code == 0
