"""Predictions for new files, by the recipe of the model file: flat folders, tables and DICOM without labels."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from participant.cli import main
from tests.support.cohorts import CommandOutcome, run_command
from tests.support.hospitals import write_images
from tests.support.medical_files import write_dicom


def model_of(folder: Path, data: Path, model: str, *options: str) -> Path:
    """A model file for such data; how well it predicts does not matter here."""
    path = folder / "model.safetensors"
    given = [word for option in options for word in ("--data-option", option)]
    made = run_command(main, "init", "--data", str(data), "--model", model, "--out", str(path), *given)
    assert made.code == 0, made.complaint
    return path


def predict(model: Path, data: Path, *options: str) -> CommandOutcome:
    given = [word for option in options for word in ("--data-option", option)]
    return run_command(main, "predict", "--model", str(model), "--data", str(data), *given)


def rows(outcome: CommandOutcome) -> list[dict[str, str]]:
    assert outcome.code == 0, outcome.complaint
    return list(csv.DictReader(outcome.out.splitlines()))


def test_a_flat_folder_is_predicted_by_file_name_and_resized_by_the_models_recipe(tmp_path: Path) -> None:
    write_images(tmp_path / "known", {"benign": 2, "cyst": 2}, size=40)
    model = model_of(tmp_path, tmp_path / "known", "lenet5", "size=16")
    (tmp_path / "new").mkdir()
    for name in ("b.png", "a.png"):
        shutil.copy(tmp_path / "known" / "cyst" / "P001.png", tmp_path / "new" / name)
    flat = rows(predict(model, tmp_path / "new"))
    assert [row["sample"] for row in flat] == ["a.png", "b.png"]
    assert set(flat[0]) == {"sample", "predicted", "benign", "cyst"}
    labelled = {row["sample"]: row for row in rows(predict(model, tmp_path / "known"))}
    assert labelled["cyst/P001.png"]["cyst"] == flat[0]["cyst"]
    single = rows(predict(model, tmp_path / "new" / "a.png"))
    assert single[0]["cyst"] == flat[0]["cyst"]


def test_a_table_without_labels_is_predicted_by_id(tmp_path: Path) -> None:
    (tmp_path / "known.csv").write_text("age,pulse,label\n30,60,well\n70,90,sick\n")
    model = model_of(tmp_path, tmp_path / "known.csv", "mlp", "center=50,70", "spread=20,20")
    (tmp_path / "new.csv").write_text("case,pulse,age\nK1,90,70\nK2,60,30\n")
    by_id = rows(predict(model, tmp_path / "new.csv", "id=case"))
    assert [row["sample"] for row in by_id] == ["K1", "K2"]
    known = rows(predict(model, tmp_path / "known.csv"))
    assert [row["sample"] for row in known] == ["1", "2"]
    assert [row["sick"] for row in known] == [row["sick"] for row in reversed(by_id)]


def test_dicom_files_are_predicted_by_name_like_their_exported_images(tmp_path: Path) -> None:
    write_images(tmp_path / "known", {"benign": 2, "cyst": 2})
    model = model_of(tmp_path, tmp_path / "known", "lenet5")
    rng = np.random.default_rng(0)
    write_dicom(
        tmp_path / "scans" / "1.dcm", rng.integers(0, 256, (16, 16)).astype(np.int16), patient=None,
        WindowCenter=128, WindowWidth=256,
    )  # fmt: skip
    assert [row["sample"] for row in rows(predict(model, tmp_path / "scans"))] == ["1.dcm"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["window=100/200"], "preprocessing of the data: got 8-bit image"),
        (["size=20"], "resized to 20x20"),
        (["channels=3"], "input shape of the data: got (3, 16, 16)"),
    ],
)
def test_samples_that_were_prepared_otherwise_are_refused(options: list[str], said: str, tmp_path: Path) -> None:
    write_images(tmp_path / "known", {"benign": 2, "cyst": 2})
    refused = predict(model_of(tmp_path, tmp_path / "known", "lenet5"), tmp_path / "known", *options)
    assert refused.is_one_clear_line, refused.complaint
    assert said in refused.complaint


def test_arrays_must_be_of_the_models_kind(tmp_path: Path) -> None:
    write_images(tmp_path / "known", {"benign": 2, "cyst": 2})
    model = model_of(tmp_path, tmp_path / "known", "lenet5")
    np.savez(tmp_path / "floats.npz", x=np.zeros((2, 1, 16, 16), dtype=np.float32))
    refused = predict(model, tmp_path / "floats.npz")
    assert refused.is_one_clear_line
    assert "values as stored" in refused.complaint
    np.savez(tmp_path / "bytes.npz", x=np.zeros((2, 1, 16, 16), dtype=np.uint8), id=np.array(["a", "b"]))
    assert [row["sample"] for row in rows(predict(model, tmp_path / "bytes.npz"))] == ["a", "b"]
