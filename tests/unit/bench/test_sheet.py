"""Claims about the table that is quoted, the sentences beside it, and the JSON that keeps every pass."""

from __future__ import annotations

import json

from scripts.bench.figures import Measurements, Threshold, noise_sentence, quantity, ratio
from scripts.bench.machine import Machine
from scripts.bench.sheet import PartResult, from_json, markdown_table, sentences, to_json

OURS = Measurements(name="ours", unit="s", values=(1.0, 1.1, 1.2))
PLAIN = Measurements(name="plain", unit="s", values=(1.0, 1.0, 1.0))
PEAK = Measurements(name="peak", unit="GB", values=(0.8,))
RATE = Measurements(name="rate", unit="GB/s", values=(2.0, 4.0, 3.0))


def result() -> PartResult:
    return PartResult(
        part="round",
        findings=(
            ratio("ours / plain", OURS, PLAIN, Threshold(must=1.1, goal=0.9)),
            quantity("peak memory", PEAK, Threshold(must=1.0)),
            ratio("bytes moved", RATE, PLAIN, Threshold(must=2.5, goal=4.0, higher=True)),
            ratio("beside", PLAIN, OURS),
        ),
        series=(OURS, PLAIN),
        notes=("A note.",),
        seconds=12.4,
    )


def test_table_shows_median_range_bars_and_verdict() -> None:
    """Quotients of the first: 1.0, 1.1, 1.2; of the last: 1, 0.909 and 0.833."""
    assert markdown_table([result()]).splitlines() == [
        "| part | measured side by side | median (range) | must | goal | verdict |",
        "|---|---|---|---|---|---|",
        "| round | ours / plain | 1.10 (1.00–1.20) | ≤ 1.10 | ≤ 0.90 | met, within the noise |",
        "| round | peak memory | 0.80 GB | ≤ 1.00 GB | – | met |",
        "| round | bytes moved | 3.00 (2.00–4.00) | ≥ 2.50 | ≥ 4.00 | met, within the noise |",
        "| round | beside | 0.91 (0.83–1.00) | – | – | – |",
    ]


def test_sentences_give_the_figures_behind_the_ratios_and_their_noise() -> None:
    assert sentences(result()) == [
        "round (12 s): medians ours 1.10 s, plain 1.00 s.",
        noise_sentence({"ours": OURS, "plain": PLAIN}),
        "A note.",
    ]


def test_json_brings_everything_back() -> None:
    text = json.dumps(to_json(result()))
    assert from_json("round", json.loads(text)) == result()
    assert json.loads(text)["findings"][0]["verdict"] == "met, within the noise"


def machine(load: float, cores: int) -> Machine:
    return Machine(
        made="2026-01-01T00:00:00+00:00",
        processor="a processor",
        cores=cores,
        memory_gb=8.0,
        file_system="ext4",
        load_average=(load, 0.1, 0.1),
        versions={"torch": "2", "numpy": "2", "python": "3"},
    )


def test_busy_machine_is_warned_of_by_its_load_per_core() -> None:
    """A quarter of a core: 0.5 on two."""
    assert machine(0.5, 2).warning is None
    assert "load 0.60" in str(machine(0.6, 2).warning)
    assert machine(0.6, 4).warning is None
