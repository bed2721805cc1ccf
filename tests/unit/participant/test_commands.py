"""Claims about the commands keygen, check, predict, export, and about the configuration of join."""

from __future__ import annotations

import csv
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from participant.cli import main
from participant.config import read_settings
from participant.record.model_file import read_model, write_model
from participant.record.private_state import PERSONAL
from participant.wire.keys import make_keys, read_keys
from tests.support.cohorts import CommandOutcome, run_command

ROOT = Path(__file__).parents[3]
OPTIONS = ["--data-option", "samples=120", "--data-option", "classes=3"]
NOTES = {"run": "r", "participant": "a", "algorithm": "fedap", "rounds": "3", "test_accuracy": "0.9"}


def check(*arguments: str) -> CommandOutcome:
    return run_command(main, "check", "--data", "synthetic", *OPTIONS, *arguments)


def initial(path: Path) -> Path:
    outcome = run_command(main, "init", "--data", "synthetic", "--model", "lenet5", "--out", str(path), *OPTIONS)
    assert outcome.code == 0, outcome.complaint
    return path


def test_a_key_file_is_its_owners_alone(tmp_path: Path) -> None:
    outcome = run_command(main, "keygen", "--name", "hospital-1", "--folder", str(tmp_path))
    assert outcome.code == 0, outcome.complaint
    path = tmp_path / "hospital-1.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keys = read_keys(path, str(tmp_path / "hospital-1.pub"))
    assert keys.public == keys.coordinator
    assert f"hospital-1 {keys.public}" in outcome.out
    assert keys.secret not in outcome.out
    assert keys.secret not in repr(keys)
    again = run_command(main, "keygen", "--name", "hospital-1", "--folder", str(tmp_path))
    assert again.is_one_clear_line


@pytest.mark.parametrize("arguments", [["--help"], ["keygen", "--name", "a"], ["group-key"], ["config"], ["join"]])
def test_commands_that_need_no_torch_do_not_wait_for_it(tmp_path: Path, arguments: list[str]) -> None:
    """`join` without settings: what is wrong with them is said at once."""
    program = "import sys; from participant.cli import app\ntry: app()\nfinally: print('torch' in sys.modules)"
    run = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(run, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "False", done.stderr


def test_coordinators_key_may_be_text_or_a_file_that_holds_it(tmp_path: Path) -> None:
    mine, theirs = make_keys(tmp_path, "mine"), make_keys(tmp_path, "theirs")
    toml, bare = tmp_path / "coordinator.toml", tmp_path / "coordinator.txt"
    toml.write_text(f'public = "{theirs.public}"\n')
    bare.write_text(f"{theirs.public}\n")
    for form in (theirs.public, str(theirs.secret_file), str(toml), str(bare)):
        assert read_keys(mine.secret_file, form).coordinator == theirs.public


def test_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    made = make_keys(tmp_path, "mine")
    made.secret_file.chmod(0o644)
    with pytest.raises(InvalidInput, match="mode 0600"):
        read_keys(made.secret_file, made.public)


def test_check_refuses_what_cannot_work(tmp_path: Path) -> None:
    path = initial(tmp_path / "m")
    other_classes = run_command(
        main, "check", "--data", "synthetic", "--data-option", "samples=120", "--data-option", "classes=4",
        "--model-file", str(path),
    )  # fmt: skip
    assert other_classes.is_one_clear_line
    assert "classes" in other_classes.complaint
    assert check("--model-file", str(path), "--algorithm", "fedapp").is_one_clear_line
    assert check().is_one_clear_line, "neither model nor model file"
    assert check("--model-file", str(path), "--rounds", "3", "--warmup-rounds", "3").is_one_clear_line


def test_address_of_another_machine_needs_keys() -> None:
    settings = read_settings(None, {"coordinator": "tcp://10.0.0.7:5555", "data": "synthetic", "name": "a"})
    with pytest.raises(InvalidInput, match="which is not this machine"):
        settings.address()
    open_door = settings.model_copy(update={"insecure": True})
    assert open_door.address().endpoint == "tcp://10.0.0.7:5555"


def test_config_file_is_read_options_win_and_misspelt_fields_are_named(tmp_path: Path) -> None:
    path = tmp_path / "join.toml"
    path.write_text('coordinator = "ipc:///tmp/x"\ndata = "synthetic"\nname = "a"\ngive_up_s = 5.0\n')
    settings = read_settings(path, {"name": "b", "give_up_s": None})
    assert (settings.name, settings.give_up_s) == ("b", 5.0)
    path.write_text('coordinater = "ipc:///tmp/x"\n')
    with pytest.raises(InvalidInput, match="Did you mean 'coordinator'"):
        read_settings(path, {})
    with pytest.raises(InvalidInput, match="--coordinator"):
        read_settings(None, {"data": "synthetic", "name": "a"})


def test_paths_in_a_file_are_relative_to_it_and_those_of_options_to_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    path = tmp_path / "join.toml"
    path.write_text(
        'coordinator = "ipc:///tmp/x"\nname = "a"\nkeys = "a.key"\nstate = "state"\ncoordinator_key = "c.pub"\n'
        'data = "images"\nmodel_file = "/m"\ngroup_key = "group.key"\n'
    )
    settings = read_settings(path, {"log_file": Path("log")})
    assert (settings.keys, settings.state) == (tmp_path / "a.key", tmp_path / "state")
    assert settings.group_key == tmp_path / "group.key"
    assert (settings.coordinator_key, settings.data) == (str(tmp_path / "c.pub"), str(tmp_path / "images"))
    assert (settings.model_file, settings.log_file) == (Path("/m"), Path("log"))
    for name in ("synthetic", "package.module:factory"):
        assert read_settings(path, {"data": None, "model": name}).model == name
        path.write_text(f'coordinator = "ipc:///tmp/x"\nname = "a"\ndata = "{name}"\n')
        assert read_settings(path, {}).data == name


def personal(folder: Path) -> Path:
    spec, state, _ = read_model(initial(folder / "m"))
    folder.mkdir(exist_ok=True)
    write_model(folder / PERSONAL, spec, state, NOTES)
    return folder / PERSONAL


def test_bundle_describes_itself_and_predicts_what_the_personal_model_does(tmp_path: Path) -> None:
    personal(tmp_path)
    exported = run_command(main, "export", "--state", str(tmp_path), "--out", str(tmp_path / "bundle.safetensors"))
    assert exported.code == 0, exported.complaint
    spec, _, notes = read_model(tmp_path / "bundle.safetensors")
    assert (spec.model, len(spec.classes)) == ("lenet5", 3)
    assert NOTES.items() <= notes.items()
    outs = []
    for model in (tmp_path / PERSONAL, tmp_path / "bundle.safetensors"):
        out = tmp_path / f"{model.name}.csv"
        arguments = ["--model", str(model), "--data", "synthetic", "--out", str(out), *OPTIONS]
        assert run_command(main, "predict", *arguments).code == 0
        outs.append(out.read_text())
    assert outs[0] == outs[1]
    rows = list(csv.DictReader(outs[0].splitlines()))
    assert len(rows) == 120
    for row in rows:
        shares = {name: float(row[name]) for name in spec.classes}
        assert sum(shares.values()) == pytest.approx(1.0, abs=1e-5)
        assert row["predicted"] == max(shares, key=lambda name: shares[name])


def test_samples_without_labels_are_predicted(tmp_path: Path) -> None:
    model = personal(tmp_path)
    np.savez(tmp_path / "new.npz", x=np.zeros((5, 1, 16, 16), dtype=np.uint8))
    out = tmp_path / "new.csv"
    arguments = ["--model", str(model), "--data", str(tmp_path / "new.npz"), "--out", str(out)]
    assert run_command(main, "predict", *arguments).code == 0
    assert len(out.read_text().splitlines()) == 6
    np.savez(tmp_path / "wrong.npz", x=np.zeros((5, 1, 28, 28), dtype=np.uint8))
    wrong = run_command(
        main, "predict", "--model", str(model), "--data", str(tmp_path / "wrong.npz"), "--out", str(out)
    )
    assert wrong.is_one_clear_line


def test_export_before_the_run_has_ended_is_refused(tmp_path: Path) -> None:
    assert run_command(
        main, "export", "--state", str(tmp_path), "--out", str(tmp_path / "b.safetensors")
    ).is_one_clear_line


def test_spec_of_the_initial_model_is_found_by_name_as_by_file(tmp_path: Path) -> None:
    by_name, by_file = check("--model", "lenet5"), check("--model-file", str(initial(tmp_path / "m")))
    assert by_name.code == by_file.code == 0
    assert by_name.out == by_file.out
