"""Claims about what is read from the logs and records that commands leave while they run."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.bench.commands import finished_rounds, first_orders
from scripts.bench.scale import bytes_per_round


def logged(event: str, order: str, second: int) -> str:
    return json.dumps({"event": event, "order": order, "timestamp": f"2026-01-01T00:00:0{second}.250000Z"}) + "\n"


def log_file(folder: Path, name: str, text: str) -> None:
    path = folder / "runs" / "run" / "federation" / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_first_training_order_counts_and_measuring_does_not(tmp_path: Path) -> None:
    log_file(tmp_path, "c1", logged("order.begun", "anchor", 1))
    log_file(tmp_path, "c2", logged("order.begun", "anchor", 1) + logged("order.begun", "train", 3))
    log_file(tmp_path, "c3", logged("order.begun", "train", 2) + logged("order.begun", "train", 5))
    began = first_orders(tmp_path)
    assert sorted(began) == ["c2", "c3"]
    assert began["c2"] - began["c3"] == 1.0


def test_torn_last_line_is_no_order_yet(tmp_path: Path) -> None:
    log_file(tmp_path, "c1", logged("order.begun", "train", 1)[:-20])
    assert first_orders(tmp_path) == {}


def test_rounds_are_counted_by_whole_lines(tmp_path: Path) -> None:
    assert finished_rounds(tmp_path) == 0
    (tmp_path / "runs" / "run").mkdir(parents=True)
    (tmp_path / "runs" / "run" / "rounds.jsonl").write_text('{"round": 0}\n{"round": 1}\n{"rou')
    assert finished_rounds(tmp_path) == 2


def test_traffic_is_the_mean_of_rounds_after_the_first(tmp_path: Path) -> None:
    """Round 0 carries the initial model and is left out; then (10 + 20 + 30 + 40) / 2 up and (1 + 3) / 2 down."""
    lines = [
        {"closed_round": 0, "bytes": [["a", 0, "in", 999], ["a", 0, "out", 999]]},
        {"closed_round": 1, "bytes": [["a", 1, "in", 10], ["b", 1, "in", 20], ["a", 1, "out", 1]]},
        {"closed_round": 2, "bytes": [["a", 2, "in", 30], ["b", 2, "in", 40], ["a", 2, "out", 3]]},
    ]
    path = tmp_path / "traffic.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert bytes_per_round(tmp_path) == (50.0, 2.0)
