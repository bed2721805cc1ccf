"""Claims about `fedap-participant init`: the one file a federation starts from, and how wrong input is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedap_core.parts import Part
from participant.cli import main
from participant.data import DataOptions, load_dataset
from participant.record.model_file import make_initial, read_model
from tests.support.cohorts import CommandOutcome, run_command, tensor_bits

SMALL = ["--data-option", "samples=20", "--data-option", "classes=3"]


def init(out: Path, *options: str, data: str = "synthetic", model: str = "lenet5") -> CommandOutcome:
    return run_command(main, "init", "--data", data, "--model", model, "--out", str(out), *SMALL, *options)


def test_file_holds_the_model_of_the_seed_and_everything_to_agree_on(tmp_path: Path) -> None:
    outcome = init(tmp_path / "deep" / "initial.safetensors", "--seed", "5")
    assert outcome.code == 0, outcome.complaint
    data = load_dataset("synthetic", DataOptions(options={"samples": "20", "classes": "3"}))
    expected, state = make_initial(
        "lenet5", input_shape=(1, 16, 16), classes=data.classes, preprocessing=data.preprocessing, seed=5
    )
    spec, found, notes = read_model(tmp_path / "deep" / "initial.safetensors")
    assert spec == expected
    assert notes == {}
    assert {name: tensor.tolist() for name, tensor in found.items()} == {n: t.tolist() for n, t in state.items()}


def test_same_command_writes_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert init(tmp_path / name, "--seed", seed).code == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert tensor_bits(tmp_path / "a")["fc1.weight"] != tensor_bits(tmp_path / "c")["fc1.weight"]


def test_line_on_the_terminal_counts_the_values_of_each_part(tmp_path: Path) -> None:
    """fc3 has 84 * 3 + 3 = 255 values; two BN layers of 6 and 16 channels 4 * 22 = 88, and two counters: 90."""
    out = init(tmp_path / "initial.safetensors").out
    assert "head fc3" in out
    assert "head 255, batch norm 90" in out
    assert "3 classes, input (1, 16, 16)" in out


def test_named_head_overrides_the_one_that_is_found(tmp_path: Path) -> None:
    assert init(tmp_path / "initial.safetensors", "--head", "fc2").code == 0
    spec = read_model(tmp_path / "initial.safetensors")[0]
    assert [tensor.name for tensor in spec.tensors if tensor.part is Part.HEAD] == ["fc2.weight", "fc2.bias"]


def test_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "initial.safetensors"
    path.write_text("precious")
    outcome = init(path)
    assert outcome.is_one_clear_line, outcome.complaint
    assert "--force" in outcome.complaint
    assert path.read_text() == "precious"
    assert init(path, "--force").code == 0
    assert read_model(path)[0].model == "lenet5"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--data", "synthetik"], "Did you mean 'synthetic'?"),
        (["--data", "chestmnist"], "chestmnist"),
        (["--data", "./nowhere.csv"], "nowhere.csv"),
        (["--model", "lenet"], "Did you mean 'lenet5'?"),
        (["--model", "no.such:factory"], "no.such"),
        (["--model", "alexnet"], "alexnet"),
        (["--head", "fc9"], "fc9"),
        (["--data-option", "clases=3"], "Did you mean 'classes'?"),
        (["--data-option", "classes"], "key=value"),
        (["--data-option", "classes=1"], "classes"),
        (["--seed", "-1"], "seed"),
        (["--seed", "99999999999999999999"], "seed"),
    ],
)
def test_bad_option_is_refused_in_one_line_and_writes_nothing(options: list[str], said: str, tmp_path: Path) -> None:
    outcome = init(tmp_path / "initial.safetensors", *options)
    assert outcome.is_one_clear_line, outcome.complaint
    assert said in outcome.complaint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["file/initial.safetensors", "folder"])
def test_place_that_cannot_be_written_is_refused_in_one_line(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    outcome = init(tmp_path / place, "--force")
    assert outcome.is_one_clear_line, outcome.complaint
    assert place.split("/")[0] in outcome.complaint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
