"""Claims about the targets: all of the paper is there, the runs are the right ones, every figure shows something."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from fedap_core.errors import InvalidInput
from fedap_core.strategies import STRATEGIES
from scripts.experiments.reproduce.catalogue import MEASURED_MIN, TARGETS, find_target
from scripts.experiments.reproduce.data_sets import DATA_SETS
from scripts.experiments.reproduce.results import run_cells
from scripts.experiments.reproduce.running import run_target
from scripts.experiments.reproduce.target import DataSetPlan, Job, Scale, make_plan
from scripts.experiments.sweep import SweepOptions
from scripts.lab import main
from scripts.run.settings import RunSettings
from tests.support.cohorts import run_command
from tests.support.finished_runs import finish

ALL = [
    "datasets", "pamap2", "organa", "organc", "organs", "covid", "weighting", "bn", "alpha", "iterations", "variants",
    "convergence", "clients", "epochs", "lambda", "split", "running-stats",
]  # fmt: skip
TRAINED = [name for name in ALL if name not in ("datasets", "split", "running-stats")]
QUICK = Scale(quick=True, seeds=(0,))


def full(data: str) -> DataSetPlan:
    return make_plan(DATA_SETS[data], Scale())


def runs_of(target: str, plan: DataSetPlan) -> list[RunSettings]:
    return [run for cell in TARGETS[target].cells(plan) for run in cell.runs]


def rising(run: RunSettings, round_no: int, client: int) -> float:
    """Rises with rounds; FedAP stands above the others, more local epochs below fewer."""
    head_start = {"fedap": 0.10, "d-fedap": 0.09, "f-fedap": 0.08}.get(run.algorithm, 0.0)
    return (
        0.5
        + head_start
        + 0.3 * (round_no + 1) / run.rounds
        - 0.01 * run.sgd.epochs
        + 0.005 * (client % 5)
        + 0.001 * run.seed
    )


def test_every_table_and_figure_of_the_paper_has_its_target() -> None:
    assert list(TARGETS) == ALL
    assert all(target.name == name for name, target in TARGETS.items())


def test_list_has_a_line_for_every_target() -> None:
    for arguments in (("reproduce",), ("reproduce", "list")):
        outcome = run_command(main, *arguments)
        assert outcome.code == 0
        assert [line.split()[0] for line in outcome.out.splitlines()[: len(ALL) + 1]] == [*ALL, "all"]


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--seeds", "x", "seeds: got x, expected whole numbers, comma-separated"),
        ("--seeds", "0,0", "expected at least one seed, none twice"),
        ("--engine", "steam", "engine"),
        ("--batches", "odd", "batches: got odd, expected one of even, reference"),
    ],
)
def test_wrong_options_are_refused_for_the_list_too(option: str, value: str, said: str) -> None:
    outcome = run_command(main, "reproduce", "list", option, value)
    assert outcome.is_one_clear_line, outcome.complaint
    assert said in outcome.complaint
    assert not outcome.out


def test_measured_durations_are_given_in_minutes_with_their_data() -> None:
    assert set(MEASURED_MIN) <= set(TARGETS)
    assert "all algorithms, per client; full 27 min (organamnist, one seed)" in run_command(main, "reproduce").out


def test_unknown_target_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="Did you mean 'organa'"):
        find_target("orgna")


def test_full_organa_is_the_comparison_whose_results_are_kept() -> None:
    """The folders of `compare --data organamnist --rounds 100 --evaluate-every 5 --seeds 0,1,2 --batches reference`,
    known by name."""
    plan = make_plan(DATA_SETS["organamnist"], Scale(batches="reference"))
    names = {(run.algorithm, run.seed): run.identity for run in runs_of("organa", plan)}
    assert len(names) == 24
    assert names["fedap", 0] == "382a31722f"
    assert names["d-fedap", 0] == "14c433bba3"
    assert names["f-fedap", 0] == "5816190414"
    assert names["base", 1] == "a38c18aa4c"


def test_pamap2_on_har_is_the_comparison_whose_results_are_kept() -> None:
    plan = make_plan(DATA_SETS["har"], Scale(batches="reference"))
    names = {run.algorithm: run.identity for run in runs_of("pamap2", plan) if run.seed == 0}
    assert (names["base"], names["fedap"], names["fedbn"]) == ("35c8e5c91d", "ea9ce6f670", "ab239d316d")


@pytest.mark.parametrize("target", ["convergence", "clients", "epochs", "lambda"])
def test_figures_of_one_set_use_the_runs_of_its_table(target: str) -> None:
    known = {(run.identity, run.rounds) for run in runs_of("organa", full("organamnist"))}
    shared = [run for run in runs_of(target, full("organamnist")) if (run.identity, run.rounds) in known]
    assert len({run.seed for run in shared}) == 3
    assert "fedap" in {run.algorithm for run in shared}


@pytest.mark.parametrize(("target", "values"), [("iterations", {1, 2, 4, 8}), ("epochs", {1, 2, 5, 10})])
def test_local_epochs_times_rounds_stays_the_same(target: str, values: set[int]) -> None:
    runs = runs_of(target, full("organamnist"))
    assert {run.sgd.epochs for run in runs} == values
    assert len({run.sgd.epochs * run.rounds for run in runs}) == 1


@pytest.mark.parametrize("data", DATA_SETS)
def test_every_target_can_be_asked_for_on_every_data_set(data: str) -> None:
    """In both sizes, with the epochs in all that the data set's plan has."""
    for scale in (QUICK, Scale()):
        plan = make_plan(DATA_SETS[data], scale)
        assert all(target.cells(plan) for target in TARGETS.values() if target.name in TRAINED)


def test_rounds_that_do_not_divide_are_refused() -> None:
    plan = make_plan(DATA_SETS["synthetic"], Scale(seeds=(0,), rounds=12))
    with pytest.raises(InvalidInput, match="a multiple of 8"):
        TARGETS["iterations"].cells(plan)


def test_grids_are_the_paper_s() -> None:
    clients = {run.cohort.clients for run in runs_of("clients", full("organamnist"))}
    alphas = {run.cohort.alpha for run in runs_of("alpha", full("organamnist"))}
    weights = {run.options.get("self_weight", "0.5") for run in runs_of("lambda", full("organamnist"))}
    assert (clients, alphas) == ({10, 20, 50, 100}, {0.1, 0.05})
    assert weights == {"0.1", "0.3", "0.5", "0.7", "0.9"}
    assert {run.algorithm for run in runs_of("bn", full("pamap2"))} == {"fedap", "fedap-sbn"}


@pytest.mark.parametrize("target", TRAINED)
def test_quick_runs_are_never_mistaken_for_full_ones(target: str) -> None:
    """A full folder does not evaluate every round that a quick one shows, so the two must not share a name."""
    for data in ("organamnist", "synthetic"):
        quick = {run.identity for run in runs_of(target, make_plan(DATA_SETS[data], QUICK)) if run.evaluate_every == 1}
        whole = {run.identity for run in runs_of("organa", full(data))}
        assert quick
        assert not quick & whole


def shown(target: str, root: Path, scale: Scale, data: list[str]) -> Path:
    """Finished runs for every cell, then the target on them: nothing is left to train."""
    for name in data:
        finish(root, runs_of(target, make_plan(DATA_SETS[name], scale)), rising)
    console = Console(file=io.StringIO(), width=200)
    page = run_target(TARGETS[target], data, scale, SweepOptions(root=root), console)
    assert "% after" not in str(console.file)
    return page


def require_picture(path: Path) -> None:
    """A PNG with more than paper and a frame: several colours, and ink on a fair share of the area. And an SVG."""
    pixels = np.asarray(Image.open(path.with_suffix(".png")).convert("RGB")).astype(np.int64)
    inked = np.any(pixels < 245, axis=2, keepdims=True)[:, :, 0]
    assert inked.mean() > 0.01
    assert len(np.unique(pixels[inked] @ [65536, 256, 1])) > 20
    assert inked[:, : inked.shape[1] // 2].any()
    assert inked[:, inked.shape[1] // 2 :].any()
    assert path.with_suffix(".svg").read_text(encoding="utf-8").startswith("<?xml")


RAW = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, [*STRATEGIES, *DATA_SETS]))})(?![\w-])")


def require_shown_names(page: Path) -> None:
    """No figure and no table writes an algorithm or a data set as the options do. SVG names its texts in comments."""
    pictures = list(page.parent.glob("*.svg"))
    assert pictures
    texts = [text for path in pictures for text in re.findall(r"<!-- (.*) -->", path.read_text(encoding="utf-8"))]
    assert len(texts) > 5
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith(("|", "![", "#"))]
    captions = [row.partition("](")[0] for row in rows]  # behind it is a file name
    assert [text for text in texts + captions if RAW.search(text)] == []


@pytest.mark.parametrize("target", [name for name in ALL if name != "running-stats"])
def test_every_target_leaves_a_page_a_csv_and_a_figure_that_is_not_blank(target: str, tmp_path: Path) -> None:
    several = len(TARGETS[target].needs) > 1
    page = shown(target, tmp_path, QUICK, ["watch", "synthetic"] if several else ["synthetic"])
    require_picture(page)
    text = page.read_text(encoding="utf-8")
    assert f"]({page.stem}.png)" in text
    assert "Made by `fedap-lab" in text
    assert "Versions: " in text
    assert "synthetic" in page.stem
    assert ("**Held:**" in text or "**Not held:**" in text) is (target != "datasets")
    rows = list(csv.reader(page.with_suffix(".csv").open(encoding="utf-8")))
    assert len(rows) > 1
    assert {len(row) for row in rows} == {len(rows[0])}
    require_shown_names(page)


def test_csv_has_a_line_per_run_with_every_client(tmp_path: Path) -> None:
    """Two seeds, two algorithms, ten clients: four lines; client 1 of fedbn at the end: 50 + 30 - 1 = 79 %."""
    scale = Scale(quick=True, seeds=(0, 1))
    page = shown("weighting", tmp_path, scale, ["synthetic"])
    rows = list(csv.DictReader(page.with_suffix(".csv").open(encoding="utf-8")))
    assert [(row["algorithm"], row["seed"]) for row in rows] == [
        ("fedbn", "0"), ("fedbn", "1"), ("fedap", "0"), ("fedap", "1")
    ]  # fmt: skip
    assert (rows[0]["client 1"], rows[0]["client 10"]) == ("79.000", "81.000")
    assert {row["data"] for row in rows} == {"synthetic"}


def test_means_are_over_seeds_and_clients_are_the_first_seed_s(tmp_path: Path) -> None:
    """Clients 79 to 81 %, seed 1 higher by 0.1: means 80.00 and 80.10, so 80.05 ± 0.07; FedAP ten points more."""
    page = shown("weighting", tmp_path, Scale(quick=True, seeds=(0, 1)), ["synthetic"])
    text = page.read_text(encoding="utf-8")
    assert "| Synthetic images | 80.05 ± 0.07 | **90.05 ± 0.07** |" in text
    assert "10 of 10 clients are better off, from +10.0 to +10.0 points" in text


def lower_on_the_watch(run: RunSettings, round_no: int, client: int) -> float:
    """Ten points below what the other sets have, and client 1 another ten."""
    return rising(run, round_no, client) - 0.1 * (run.cohort.data == "watch") * (1 + (client == 0))


@pytest.mark.parametrize(("target", "names"), [("weighting", ("FedBN", "FedAP")), ("bn", ("SBN", "LBN"))])
def test_every_data_set_has_its_panel_and_its_table_of_clients(
    target: str, names: tuple[str, str], tmp_path: Path
) -> None:
    """Last round, client 1: 50 + 30 - 1 = 79 %, FedAP ten more; on the watch twenty less."""
    plans = tuple(make_plan(DATA_SETS[name], QUICK) for name in ("watch", "synthetic"))
    for plan in plans:
        finish(tmp_path, runs_of(target, plan), lower_on_the_watch)
    console = Console(file=io.StringIO())
    cells = [cell for plan in plans for cell in TARGETS[target].cells(plan)]
    results = run_cells(cells, SweepOptions(root=tmp_path), console)
    findings = TARGETS[target].work(Job(plans=plans, root=tmp_path, title="t"), results)
    means, *panels = findings.figure.axes
    assert [len(bars) for bars in means.containers] == [2, 2]
    assert [axes.get_title(loc="left") for axes in panels] == [
        "(b) clients of Smartwatch (seglearn)",
        "(c) clients of Synthetic images",
    ]
    _, watch, synthetic = findings.tables
    assert watch[0] == "Every client of Smartwatch (seglearn), last round, seed 0, %"
    assert synthetic[0] == "Every client of Synthetic images, last round, seed 0, %"
    first = (79.0, 89.0)
    for axes, (_, table), less in zip(panels, (watch, synthetic), (20.0, 0.0), strict=True):
        lines = axes.get_lines()
        assert [str(line.get_label()) for line in lines] == list(names)
        assert [len(np.asarray(line.get_ydata())) for line in lines] == [10, 10]
        assert [np.asarray(line.get_ydata())[0] for line in lines] == pytest.approx([one - less for one in first])
        assert f"| c01 | {first[0] - less:.2f} | **{first[1] - less:.2f}** |" in table
        assert len(table.splitlines()) == 2 + 10 + 1


def test_full_organa_stands_beside_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty clients of 79 to 81 %: Base 80.10 % on average over seeds 0, 1, 2; the paper has 48.04."""
    (tmp_path / "organamnist.npz").touch()
    monkeypatch.setenv("FEDAP_DATA", str(tmp_path))
    finish(tmp_path / "out", runs_of("organa", full("organamnist")), rising)
    outcome = run_command(main, "reproduce", "organa", "--out", str(tmp_path / "out"))
    assert outcome.code == 0, outcome.complaint
    text = (tmp_path / "out" / "organa.md").read_text(encoding="utf-8")
    assert "| last round, mean ± deviation of 3 seeds | 80.10 ± 0.10 |" in text
    assert "| the paper | 48.04 | 84.06 | 84.11 | 70.02 | 89.28 | **92.62** | – | – |" in text
    assert "Table 3, row avg" in text
    assert "24 of 24 runs existed already" in outcome.out
    assert "Made by `fedap-lab reproduce organa`." in text  # a page is read elsewhere: no paths of this machine
    assert str(tmp_path) not in text
    assert "Versions: torch 1.2.3." in text  # those of the runs, not of who asks today


def test_a_stand_in_s_page_holds_none_of_the_paper_s_numbers(tmp_path: Path) -> None:
    text = shown("organa", tmp_path, QUICK, ["synthetic"]).read_text(encoding="utf-8")
    assert "the paper |" not in text
    assert "92.62" not in text


def test_models_that_were_not_kept_are_asked_for_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the models of round"):
        shown("running-stats", tmp_path, QUICK, ["synthetic"])


def test_running_statistics_of_a_short_run_are_drawn(tmp_path: Path) -> None:
    """LeNet-5 has 6 + 16 BN channels: ten clients have 220 rows."""
    arguments = ["reproduce", "running-stats", "--quick", "--data", "synthetic", "--rounds", "1"]
    outcome = run_command(main, *arguments, "--out", str(tmp_path))
    assert outcome.code == 0, outcome.complaint
    require_picture(tmp_path / "running-stats-synthetic-quick")
    require_shown_names(tmp_path / "running-stats-synthetic-quick.md")
    rows = list(csv.DictReader((tmp_path / "running-stats-synthetic-quick.csv").open(encoding="utf-8")))
    assert len(rows) == 220
    assert [row["channel"] for row in rows[:7]] == ["0", "1", "2", "3", "4", "5", "0"]
    assert not list(tmp_path.glob(".running-stats-*"))


@pytest.mark.parametrize(("target", "bold"), [("lambda", False), ("clients", True)])
def test_the_best_of_a_row_is_bold_only_among_several(target: str, bold: bool, tmp_path: Path) -> None:
    """lambda shows FedAP alone, clients three algorithms."""
    text = shown(target, tmp_path, QUICK, ["synthetic"]).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    assert rows
    assert all(("**" in row) is bold for row in rows)
