"""Hospitals with tables: columns and constants come from the model file, whatever a hospital's own file looks like."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from participant.cli import main
from participant.record.model_file import read_model
from tests.support.cohorts import run_command
from tests.support.hospitals import federate


def write_table(path: Path, columns: tuple[str, ...], *, rows: int = 40, seed: int = 0) -> None:
    """Pulse and age tell the sick from the well; patients have two rows each."""
    rng = np.random.default_rng(seed)
    lines = [",".join(columns)]
    for row in range(rows):
        sick = row % 4 < 2
        made = {
            "age": f"{rng.normal(70 if sick else 40, 5):.1f}",
            "pulse": f"{rng.normal(95 if sick else 65, 5):.1f}",
            "patient": f"P{row // 2}",
            "ward": "A",
            "diagnosis": "sick" if sick else "well",
        }
        lines.append(",".join(made[name] for name in columns))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_tables_with_columns_in_another_order_train_one_mlp(tmp_path: Path) -> None:
    write_table(tmp_path / "north.csv", ("age", "pulse", "diagnosis"))
    write_table(tmp_path / "south.csv", ("patient", "diagnosis", "pulse", "ward", "age"), seed=1)
    initial = tmp_path / "initial.safetensors"
    made = run_command(
        main, "init", "--data", str(tmp_path / "north.csv"), "--model", "mlp", "--data-option", "label=diagnosis",
        "--data-option", "columns=age,pulse", "--data-option", "center=55,80", "--data-option", "spread=15,15", "--out",
        str(initial),
    )  # fmt: skip
    assert made.code == 0, made.complaint
    label = {"label": "diagnosis"}
    states = federate(
        tmp_path,
        initial,
        {
            "north": {"data": str(tmp_path / "north.csv"), "data_options": label},
            "south": {"data": str(tmp_path / "south.csv"), "data_options": label | {"group": "patient"}},
        },
        rounds=8,
    )
    for state in states.values():
        spec, _, notes = read_model(state / "personal.safetensors")
        assert spec.preprocessing.scale == (1 / 15, 1 / 15)
        assert float(notes["test_accuracy"]) > 0.9
