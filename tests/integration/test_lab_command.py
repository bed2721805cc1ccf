"""Claims about `fedap-lab compare`: what it prints and writes, and how it refuses."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from protocol.plan import Sgd
from scripts.experiments.comparison import Comparison
from scripts.experiments.demo import ALGORITHMS, demo_comparison
from scripts.lab import main
from tests.support.cohorts import CommandOutcome, lab_arguments, run_command


def compare(out: Path, algorithms: str = "base", *more: str, rounds: int = 1) -> CommandOutcome:
    return run_command(main, *lab_arguments(out, algorithms, rounds=rounds, more=["--jobs", "1", *more]))


def recorded(out: Path, pattern: str) -> list[float]:
    """The last round's accuracies in the one run folder of that name."""
    (path,) = out.glob(f"{pattern}/rounds.jsonl")
    accuracies: list[float] = json.loads(path.read_text().splitlines()[-1])["test"]["accuracy"]
    return accuracies


def table_rows(path: Path) -> dict[str, list[str]]:
    """Algorithm -> cells of the first table of a Markdown file."""
    lines = itertools.dropwhile(lambda line: not line.startswith("|"), path.read_text().splitlines())
    table = [line.strip("| ").split(" | ") for line in itertools.takewhile(lambda line: line.startswith("|"), lines)]
    return {cells[0]: cells[1:] for cells in table[2:]}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two algorithms, two seeds, two rounds."""
    out = tmp_path_factory.mktemp("compared")
    outcome = compare(out, "fedavg,base", "--seeds", "0,1", rounds=2)
    assert outcome.code == 0, outcome.complaint
    return out


def test_csv_has_a_line_per_run_with_every_client_in_per_cent(compared: Path) -> None:
    (path,) = compared.glob("compare-*.csv")
    rows = list(csv.DictReader(path.open()))
    assert [(row["algorithm"], row["seed"]) for row in rows] == [
        ("fedavg", "0"), ("base", "0"), ("fedavg", "1"), ("base", "1")
    ]  # fmt: skip
    for row in rows:
        expected = recorded(compared, f"synthetic-{row['algorithm']}-s{row['seed']}-*")
        assert [row[client] for client in ("c1", "c2", "c3")] == [f"{100 * value:.3f}" for value in expected]
        assert row["last"] == f"{100 * np.mean(expected):.3f}"
        assert (row["rounds"], row["selected"]) == ("2", "")


def test_markdown_has_mean_and_deviation_over_seeds(compared: Path) -> None:
    """Two seeds a and b: mean (a + b) / 2, sample deviation |a - b| / sqrt(2); the worst client is averaged too."""
    (path,) = compared.glob("compare-*.md")
    for algorithm, cells in table_rows(path).items():
        seeds = [recorded(compared, f"synthetic-{algorithm}-s{seed}-*") for seed in (0, 1)]
        first, second = (100 * float(np.mean(one)) for one in seeds)
        assert cells[0] == f"{(first + second) / 2:.2f} ± {abs(first - second) / np.sqrt(2):.2f}"
        assert cells[2] == f"{100 * np.mean([min(one) for one in seeds]):.2f}"
    assert "2 rounds" in path.read_text()


def test_second_call_prints_the_same_table_without_running_anything(compared: Path) -> None:
    before = {path: path.read_bytes() for path in compared.glob("synthetic-*/*") if path.is_file()}
    outcome = compare(compared, "fedavg,base", "--seeds", "0,1", rounds=2)
    assert outcome.code == 0
    assert "% after" not in outcome.out
    assert "fedavg" in outcome.out
    assert {path: path.read_bytes() for path in compared.glob("synthetic-*/*") if path.is_file()} == before


def test_one_algorithm_with_two_options_has_two_rows(tmp_path: Path) -> None:
    outcome = compare(tmp_path, "fedprox:mu=0.5,fedprox:mu=9,fedprox")
    assert outcome.code == 0, outcome.complaint
    (path,) = tmp_path.glob("compare-*.md")
    assert list(table_rows(path)) == ["fedprox:mu=0.5", "fedprox:mu=9", "fedprox"]


def test_default_algorithms_are_the_eight_of_the_paper(tmp_path: Path) -> None:
    arguments = lab_arguments(tmp_path, "", rounds=2, more=["--jobs", "2"])
    at = arguments.index("--algorithms")
    outcome = run_command(main, *arguments[:at], *arguments[at + 2 :])
    assert outcome.code == 0, outcome.complaint
    (path,) = tmp_path.glob("compare-*.md")
    assert list(table_rows(path)) == ["base", "fedavg", "fedprox", "fedper", "fedbn", "fedap", "d-fedap", "f-fedap"]


def test_division_by_site_makes_every_site_a_client(tmp_path: Path) -> None:
    outcome = compare(tmp_path, "base", "--partition", "site", "--clients", "17")
    assert outcome.code == 0, outcome.complaint
    (table,) = tmp_path.glob("compare-*.csv")
    assert next(csv.reader(table.open()))[-3:] == ["site-0", "site-1", "site-2"]
    assert "3 clients" in outcome.out
    (models,) = tmp_path.glob("synthetic-base-*/models/round-00000")
    assert sorted(path.stem for path in models.iterdir()) == ["site-0", "site-1", "site-2"]


def test_figures_from_overlapping_windows_say_so_wherever_they_appear(tmp_path: Path) -> None:
    outcome = compare(tmp_path, "base", "--overlapping-windows")
    assert outcome.code == 0, outcome.complaint
    (markdown,) = tmp_path.glob("compare-*.md")
    (table,) = tmp_path.glob("compare-*.csv")
    for text in (outcome.out.splitlines()[0], outcome.out.partition("\n")[2], markdown.read_text(), table.read_text()):
        assert "overlapping windows" in " ".join(text.split())
    honest = compare(tmp_path / "honest")
    assert "overlapping windows" not in " ".join(honest.out.split())


def test_data_from_a_file_keep_their_comparisons_apart(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "mine.npz"
    x = rng.integers(0, 256, (240, 1, 16, 16), dtype=np.uint8)
    np.savez(path, allow_pickle=False, x=x, y=np.arange(240) % 3)
    for seed in ("0", "1"):
        arguments = f"compare --data {path} --clients 2 --partition iid --algorithms base --rounds 1".split()
        outcome = run_command(main, *arguments, "--seeds", seed, "--out", str(tmp_path / "out"))
        assert outcome.code == 0, outcome.complaint
    assert len(list((tmp_path / "out").glob("compare-*.csv"))) == 2
    assert len(list((tmp_path / "out").glob("compare-*.md"))) == 2


@pytest.mark.parametrize("algorithm", ["base", "fedavg", "fedbn", "fedap"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_training_that_diverges_ends_with_the_advice_to_lower_the_learning_rate(
    algorithm: str, workers: str, tmp_path: Path
) -> None:
    outcome = compare(tmp_path, algorithm, "--learning-rate", "1000", "--workers", workers, rounds=3)
    assert outcome.is_one_clear_line, outcome.complaint
    assert f"run {algorithm} seed 0" in outcome.complaint
    assert "lower the learning rate" in outcome.complaint
    assert not list(tmp_path.glob("anchors/*"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--data", "nowhere"], "nowhere"),
        (["--data", "./nowhere.npz"], "nowhere.npz"),
        (["--algorithms", "fedapp"], "Did you mean 'fedap'?"),
        (["--algorithms", " , "], "at least one name"),
        (["--algorithms", "fedap,base,fedap"], "every algorithm and seed once"),
        (["--algorithms", "fedap:self_weigth=1"], "Did you mean 'self_weight'?"),
        (["--algorithms", "fedap:self_weight=2"], "[0, 1]"),
        (["--algorithms", "fedap:self_weight"], "fedap: got self_weight, expected key=value"),
        (["--algorithms", "fedap:lambda=0.3"], "self_weight, which is the paper's λ"),
        (["--data", ""], "one of"),
        (["--layers", "quick"], "one of tiled, stock"),
        (["--participants-per-process", "3"], "participants-per-process: got 3, expected 1 without --engine processes"),
        (["--algorithms", "no.module:Here"], "no.module"),
        (["--data-option", "sampels=10"], "Did you mean 'samples'?"),
        (["--data-option", "samples"], "key=value"),
        (["--data-option", "samples=-1"], "samples"),
        (["--partition", "by-site"], "dirichlet-pairs"),
        (["--protocol", "papre"], "reference"),
        (["--seeds", "one"], "whole numbers"),
        (["--seeds", ""], "whole numbers"),
        (["--seeds", "1,1"], "once"),
        (["--seeds", "-1"], "seed"),
        (["--seeds", "99999999999999999999"], "less than"),
        (["--rounds", "-5"], "rounds"),
        (["--rounds", "0"], "rounds"),
        (["--clients", "0"], "clients"),
        (["--clients", "100"], "Use fewer clients"),
        (["--alpha", "-1"], "alpha"),
        (["--learning-rate", "0"], "learning_rate"),
        (["--learning-rate", "nan"], "learning_rate"),
        (["--learning-rate", "inf"], "learning_rate"),
        (["--momentum", "1"], "momentum"),
        (["--batch-size", "1"], "batch_size"),
        (["--epochs", "0"], "epochs"),
        (["--evaluate-every", "0"], "evaluate_every"),
        (["--model", "lenet6"], "Did you mean 'lenet5'?"),
        (["--model", "har-cnn"], "har-cnn"),
        (["--anchor", "missing.safetensors"], "an existing model file"),
        (["--anchor", "warmup:none"], "integer"),
        (["--anchor", "warmup:3", "--algorithms", "fedap"], "fewer than the run's 1 rounds"),
        (["--start-from", "scratch"], "anchor"),
        (["--device", "tpu"], "cpu"),
        (["--jobs", "-1"], "jobs: got -1, expected at least 1, or 0"),
        (["--workers", "-1"], "workers: got -1, expected at least 1, or 0"),
    ],
)
def test_bad_option_is_refused_in_one_line(options: list[str], said: str, tmp_path: Path) -> None:
    outcome = compare(tmp_path, "base", *options)
    assert outcome.is_one_clear_line, outcome.complaint
    assert said in outcome.complaint
    assert not list(tmp_path.rglob("rounds.jsonl"))


def test_division_by_site_of_data_without_sites_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", allow_pickle=False, x=np.zeros((240, 1, 16, 16), np.uint8), y=np.arange(240) % 3)
    arguments = ["compare", "--data", str(tmp_path / "mine.npz"), "--partition", "site", "--out", str(tmp_path / "out")]
    outcome = run_command(main, *arguments)
    assert outcome.is_one_clear_line, outcome.complaint
    assert "sites" in outcome.complaint


def test_option_lowers_the_limit_that_a_small_site_is_refused_by(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (120, 1, 16, 16), dtype=np.uint8)
    site = np.repeat(["large", "small"], [100, 20])
    np.savez(tmp_path / "mine.npz", allow_pickle=False, x=x, y=np.arange(120) % 2, site=site)
    arguments = ["--data", str(tmp_path / "mine.npz"), "--partition", "site", "--rounds", "1", "--algorithms", "base"]
    refused = run_command(main, "compare", *arguments, "--out", str(tmp_path / "out"))
    assert refused.is_one_clear_line, refused.complaint
    assert "small" in refused.complaint
    assert "--min-samples" in refused.complaint
    accepted = run_command(main, "compare", *arguments, "--out", str(tmp_path / "out"), "--min-samples", "10")
    assert accepted.code == 0, accepted.complaint
    assert len(recorded(tmp_path / "out", "*-base-*")) == 2


def test_output_folder_that_cannot_be_made_is_refused_before_anything_runs() -> None:
    outcome = compare(Path("/proc/nowhere"))
    assert outcome.is_one_clear_line, outcome.complaint
    assert "out: got /proc/nowhere, expected a folder that can be made" in outcome.complaint


def test_the_bundled_recordings_are_compared_without_further_words(tmp_path: Path) -> None:
    """Ten people: dealt to twenty clients, some would have less than a batch."""
    outcome = run_command(
        main, "compare", "--data", "watch", "--algorithms", "base", "--rounds", "1", "--out", str(tmp_path)
    )
    assert outcome.code == 0, outcome.complaint
    assert "10 clients" in outcome.out


def test_output_folder_that_is_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    outcome = compare(tmp_path / "file")
    assert outcome.is_one_clear_line, outcome.complaint
    assert (tmp_path / "file").read_text() == "mine"


def test_misspelt_algorithm_is_reported_before_any_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_given: object) -> None:
        raise AssertionError("data were read")

    monkeypatch.setattr("scripts.experiments.comparison.load_dataset", read)
    outcome = run_command(
        main, "compare", "--data", "organamnist", "--algorithms", "fedavg,fedpa", "--out", str(tmp_path / "runs")
    )
    assert outcome.is_one_clear_line, outcome.complaint
    assert "Did you mean 'fedap'?" in outcome.complaint


def test_comparison_of_the_watch_data_has_the_settings_of_the_demo() -> None:
    run = {"model": "", "rounds": 40, "learning_rate": None, "batch_size": None}
    compared = Comparison.of({"data": "watch", "partition": "site"}, run, algorithms=ALGORITHMS, seeds="0")
    assert compared.identity == demo_comparison(40).identity
    assert compared.runs[0].sgd == Sgd(learning_rate=0.05, batch_size=16)


def test_piped_comparison_prints_lines_of_progress_and_names_the_rounds_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scripts.experiments.sweep.PRINT_EVERY_S", 0.0)
    outcome = compare(tmp_path / "runs", "fedavg", rounds=2)
    assert outcome.code == 0, outcome.complaint
    assert "fedavg seed 0: round 1 of 2, 0 runs waiting" in outcome.out
    (path,) = (tmp_path / "runs").glob("compare-*.md")
    assert "last 2 rounds %" in path.read_text()
