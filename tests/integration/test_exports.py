"""Exported models give the same probabilities as `predict`, opened by their own tools: onnxruntime and MONAI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray

from participant.cli import main
from participant.data import load_new
from participant.data.base import DataOptions
from participant.record.model_file import read_model, write_model
from participant.record.monai_bundle import write_monai
from participant.record.onnx_file import write_onnx
from participant.record.predictions import predict
from participant.record.private_state import PERSONAL
from tests.support.cohorts import run_command
from tests.support.hospitals import write_images
from tests.support.medical_files import write_dicom
from tests.support.prefork import ROOT

NOTES = {"run": "r", "participant": "north", "algorithm": "fedap", "rounds": "3", "test_accuracy": "0.9"}
RUN_CHAIN = """
import json, sys, warnings
warnings.simplefilter("ignore")
from monai.bundle import ConfigParser
parser = ConfigParser()
parser.read_config(sys.argv[1] + "/configs/inference.json")
parser["bundle_root"] = sys.argv[1]
predict = parser.get_parsed_content("predict")
print(json.dumps([predict(path).tolist() for path in sys.argv[2:]]))
"""


def made(folder: Path, data: Path, model: str, *options: str) -> Path:
    """A personal model in a state folder, its weights and BN statistics drawn: a trained one is no harder to export."""
    given = [word for option in options for word in ("--data-option", option)]
    out = folder / "initial.safetensors"
    outcome = run_command(main, "init", "--data", str(data), "--model", model, "--out", str(out), *given)
    assert outcome.code == 0, outcome.complaint
    spec, state, _ = read_model(out)
    draws = torch.Generator().manual_seed(1)
    for name, tensor in state.items():
        if tensor.is_floating_point():
            noise = torch.rand(tensor.shape, generator=draws) - 0.5
            state[name] = tensor + 0.5 * noise if "running" in name else tensor + 0.1 * noise
    write_model(folder / PERSONAL, spec, state, NOTES)
    return folder / PERSONAL


def ours(model: Path, data: Path) -> NDArray[np.float64]:
    found = np.array(predict(model, str(data), root=None, options={}).probabilities)
    assert np.ptp(found[:, 0]) > 1e-4, "a model that tells no samples apart proves nothing"
    return found


def by_onnxruntime(file: Path, model: Path, data: Path) -> NDArray[np.float64]:
    recipe = dict(read_model(model)[0].preprocessing.recipe)
    stored = load_new(str(data), DataOptions(recipe=recipe)).x.astype(np.float32)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    answered: NDArray[np.float64] = np.asarray(session.run(["probabilities"], {"input": stored})[0], dtype=np.float64)
    return answered


def by_monai(folder: Path, files: list[Path]) -> NDArray[np.float64]:
    """In a process of its own, as whoever receives a bundle would."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_CHAIN, str(folder), *map(str, files)], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def test_onnxruntime_gives_the_probabilities_of_predict(tmp_path: Path) -> None:
    write_images(tmp_path / "images", {"benign": 3, "cyst": 2}, size=40)
    model = made(tmp_path, tmp_path / "images", "lenet5", "size=16")
    out = tmp_path / "north.onnx"
    exported = run_command(main, "export", "--state", str(tmp_path), "--out", str(out))
    assert exported.code == 0, exported.complaint
    answers = by_onnxruntime(out, model, tmp_path / "images")
    assert answers == pytest.approx(ours(model, tmp_path / "images"), abs=1e-6)
    described = onnxruntime.InferenceSession(out).get_modelmeta().custom_metadata_map
    assert json.loads(described["classes"]) == ["benign", "cyst"]
    assert json.loads(described["notes"])["participant"] == "north"
    again = run_command(main, "export", "--state", str(tmp_path), "--out", str(out))
    assert again.is_one_clear_line


@pytest.mark.slow
def test_onnx_of_a_table_scales_its_columns(tmp_path: Path) -> None:
    table = tmp_path / "ward.csv"
    table.write_text("age,pulse,label\n30,60,well\n70,90,sick\n55,71,sick\n")
    model = made(tmp_path, table, "mlp", "center=50,70", "spread=20,20")
    spec, state, notes = read_model(model)
    write_onnx(tmp_path / "ward.onnx", spec, state, notes)
    assert by_onnxruntime(tmp_path / "ward.onnx", model, table) == pytest.approx(ours(model, table), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("options", [("size=16",), ("size=16", "channels=3"), ("channels=1",)])
def test_a_bundle_of_images_is_a_chain_of_monais_own_transforms(options: tuple[str, ...], tmp_path: Path) -> None:
    write_images(tmp_path / "images", {"benign": 3, "cyst": 2}, size=24)
    model = made(tmp_path, tmp_path / "images", "lenet5", *options)
    out = tmp_path / "bundle"
    exported = run_command(main, "export", "--state", str(tmp_path), "--out", str(out), "--format", "monai")
    assert exported.code == 0, exported.complaint
    files = sorted((tmp_path / "images").rglob("*.png"))
    assert by_monai(out, files) == pytest.approx(ours(model, tmp_path / "images"), abs=1e-6)
    metadata = json.loads((out / "configs" / "metadata.json").read_text())
    assert metadata["network_data_format"]["outputs"]["pred"]["channel_def"] == {"0": "benign", "1": "cyst"}
    assert metadata["required_packages_version"] == {}
    assert "participant" not in (out / "configs" / "inference.json").read_text()


@pytest.mark.slow
def test_a_bundle_of_dicom_files_shows_them_as_training_did(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(4):
        write_dicom(
            tmp_path / "scans" / ("ab"[number % 2]) / f"{number}.dcm", rng.integers(0, 900, (30, 20)).astype(np.int16),
            patient=f"P{number}", RescaleSlope=1, RescaleIntercept=-400,
            PhotometricInterpretation=f"MONOCHROME{1 + number // 2}",
        )  # fmt: skip
    model = made(tmp_path, tmp_path / "scans", "lenet5", "size=16", "window=40/400")
    spec, state, notes = read_model(model)
    write_monai(tmp_path / "bundle", spec, state, notes)
    files = sorted((tmp_path / "scans").rglob("*.dcm"))
    assert by_monai(tmp_path / "bundle", files) == pytest.approx(ours(model, tmp_path / "scans"), abs=1e-6)


def test_an_unknown_format_is_refused_in_one_line(tmp_path: Path) -> None:
    refused = run_command(main, "export", "--state", str(tmp_path), "--out", str(tmp_path / "x"), "--format", "onx")
    assert refused.is_one_clear_line
    assert "Did you mean 'onnx'" in refused.complaint


def test_a_folder_that_is_no_bundle_is_never_replaced(tmp_path: Path) -> None:
    write_images(tmp_path / "images", {"benign": 2, "cyst": 2})
    made(tmp_path, tmp_path / "images", "lenet5")
    refused = run_command(
        main, "export", "--state", str(tmp_path), "--out", str(tmp_path / "images"), "--format", "monai", "--force"
    )
    assert refused.is_one_clear_line
    assert len(list((tmp_path / "images").rglob("*.png"))) == 4
