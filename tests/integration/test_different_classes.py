"""Hospitals that do not see the same classes: the model file names all of them, and everybody takes part."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from participant.cli import main
from participant.config import DataSettings
from participant.joining import open_home
from participant.record.model_file import read_model
from tests.support.cohorts import run_command
from tests.support.hospitals import federate, write_images
from tests.support.medical_files import write_dicom

ALL = ("abscess", "benign", "cyst")


def test_two_hospitals_with_different_classes_finish_a_run(tmp_path: Path) -> None:
    write_images(tmp_path / "north", {"abscess": 12, "benign": 12})
    write_images(tmp_path / "south", {"benign": 12, "cyst": 12}, seed=1)
    initial = tmp_path / "initial.safetensors"
    made = run_command(
        main, "init", "--data", str(tmp_path / "north"), "--model", "lenet5", "--classes", ",".join(ALL), "--out",
        str(initial),
    )  # fmt: skip
    assert made.code == 0, made.complaint
    assert "3 classes" in made.out
    states = federate(tmp_path, initial, {name: {"data": str(tmp_path / name)} for name in ("north", "south")})
    for name in ("north", "south"):
        spec, state, notes = read_model(states[name] / "personal.safetensors")
        assert spec.classes == ALL
        assert state["fc3.weight"].shape == (3, 84)
        assert notes["participant"] == name


def test_images_and_dicom_train_one_model_and_no_patient_id_is_written_anywhere(tmp_path: Path) -> None:
    write_images(tmp_path / "north", {"abscess": 12, "benign": 12})
    rows = ["file,label"]
    for number in range(24):
        stored = np.full((20, 20), 90 if number % 2 else 200, dtype=np.int16)
        write_dicom(
            tmp_path / "south" / f"{number}.dcm", stored, patient=f"SECRET-{number // 2}", WindowCenter=128,
            WindowWidth=256,
        )  # fmt: skip
        rows.append(f"{number}.dcm,{'benign' if number % 2 else 'cyst'}")
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    initial = tmp_path / "initial.safetensors"
    made = run_command(
        main, "init", "--data", str(tmp_path / "north"), "--model", "lenet5", "--classes", ",".join(ALL), "--out",
        str(initial), "--data-option", "size=16",
    )  # fmt: skip
    assert made.code == 0, made.complaint
    labels = {"labels": str(tmp_path / "labels.csv")}
    hospitals: dict[str, dict[str, object]] = {
        "north": {"data": str(tmp_path / "north")},
        "south": {"data": str(tmp_path / "south"), "data_options": labels},
    }
    states = federate(tmp_path, initial, hospitals)
    assert read_model(states["south"] / "personal.safetensors")[0].classes == ALL
    written = [path for folder in (*states.values(), tmp_path / "run") for path in folder.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert [path for path in written if b"SECRET" in path.read_bytes()] == []


def test_labels_follow_the_names_of_the_model_file_not_their_own_order(tmp_path: Path) -> None:
    """South's own classes are benign 0, cyst 1; the model file says cyst 0, benign 1, abscess 2."""
    write_images(tmp_path / "south", {"benign": 3, "cyst": 2})
    initial = tmp_path / "initial.safetensors"
    listed = "cyst,benign,abscess"
    arguments = ["init", "--data", str(tmp_path / "south"), "--model", "lenet5", "--out", str(initial)]
    assert run_command(main, *arguments, "--classes", listed).code == 0
    home = open_home(DataSettings(data=str(tmp_path / "south"), model_file=initial, name="south"))
    assert home.data.dataset.classes == ("cyst", "benign", "abscess")
    assert home.data.dataset.y.tolist() == [1, 1, 1, 0, 0]
    assert home.data.class_counts(np.arange(5)).tolist() == [2, 3, 0]


def test_a_class_that_the_model_file_lacks_is_refused_with_the_way_out(tmp_path: Path) -> None:
    write_images(tmp_path / "north", {"abscess": 2, "benign": 2})
    write_images(tmp_path / "south", {"benign": 2, "cyst": 2})
    initial = str(tmp_path / "initial.safetensors")
    assert run_command(main, "init", "--data", str(tmp_path / "north"), "--model", "lenet5", "--out", initial).code == 0
    refused = run_command(main, "check", "--data", str(tmp_path / "south"), "--model-file", initial)
    assert refused.is_one_clear_line, refused.complaint
    assert "got cyst, expected some of abscess, benign" in refused.complaint
    assert "init --classes" in refused.complaint


def test_wrong_list_of_classes_is_refused_in_one_line(tmp_path: Path) -> None:
    write_images(tmp_path / "north", {"abscess": 2, "benign": 2})
    for given in ("abscess", "abscess,,benign", "abscess,abscess,benign", ""):
        out = str(tmp_path / "initial.safetensors")
        arguments = ["init", "--data", str(tmp_path / "north"), "--model", "lenet5", "--out", out]
        refused = run_command(main, *arguments, "--classes", given)
        assert refused.is_one_clear_line, refused.complaint
        assert "classes" in refused.complaint
