"""The way of a new user from keys to predictions, command by command, with keys and over TCP as hospitals would."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordinator.cli import main as coordinator
from participant.cli import main as participant
from participant.record.model_file import read_model
from tests.support.cohorts import CommandOutcome, run_command, wait_until
from tests.support.prefork import ROOT
from tests.support.processes import ServeProcess, config_file

NAMES = ("north", "south")
DATA = ["--data", "synthetic", "--data-option", "samples=120", "--data-option", "classes=3"]


def require(outcome: CommandOutcome) -> str:
    assert outcome.code == 0, outcome.complaint
    return outcome.out


def joining(folder: Path, endpoint: str, public: str, name: str, keys: str) -> subprocess.Popen[bytes]:
    arguments = [
        "join", "--coordinator", endpoint, "--name", name, *DATA, "--data-option", f"seed={NAMES.index(name)}",
        "--model-file", str(folder / "initial.safetensors"), "--state", str(folder / name),
        "--keys", str(folder / keys), "--coordinator-key", public, "--also-local",
    ]  # fmt: skip
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "participant.cli", *arguments], stdout=log, stderr=log, cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip


@pytest.mark.slow
def test_from_keys_to_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    require(run_command(coordinator, "keygen"))
    for name in NAMES:
        require(run_command(participant, "keygen", "--name", name))
    (tmp_path / "members").mkdir()
    for name in NAMES:
        shutil.copy(f"keys/{name}.pub", "members")
    require(run_command(participant, "init", *DATA, "--model", "lenet5"))
    chosen = {
        "run": "first", "folder": "run", "initial": "initial.safetensors", "rounds": 2,
        "members": {"keys": "members"}, "network": {"endpoint": "tcp://127.0.0.1:*", "secret_key": "coordinator.key"},
    }  # fmt: skip
    config = config_file(tmp_path / "run.toml", chosen)
    assert "Members: 2 (" in require(run_command(coordinator, "check", "--config", str(config)))
    leaves = require(run_command(participant, "check", *DATA, "--model-file", "initial.safetensors", "--rounds", "2"))
    assert "stays local" in leaves
    with ExitStack() as stack:
        serving = ServeProcess("serve", "--config", str(config), log=tmp_path / "coordinator.log")
        stack.callback(serving.close)
        endpoint = serving.ready()
        public = str(tmp_path / "coordinator.pub")
        made = [joining(tmp_path, endpoint, public, name, f"keys/{name}.key") for name in NAMES]
        for one in made:
            stack.callback(one.wait)
            stack.callback(one.kill)
        wait_until(lambda: all(one.poll() is not None for one in made), "both to end", deadline_s=300)
        logs = [(tmp_path / f"{name}.log").read_text() for name in NAMES]
        assert [one.returncode for one in made] == [0, 0], logs
        assert serving.wait() == 0
    assert all("Alone you reach" in log for log in logs)
    assert "Run first: finished" in require(run_command(coordinator, "status", "run"))
    told = require(run_command(coordinator, "replay", "run"))
    assert all(name in told for name in NAMES)
    require(run_command(coordinator, "export", "run", "--participant", "north", "--out", "shared.st"))
    require(run_command(participant, "export", "--state", "north", "--out", "bundle.st"))
    notes = read_model(tmp_path / "bundle.st")[2]
    assert (notes["run"], notes["participant"], notes["algorithm"], notes["rounds"]) == ("first", "north", "fedap", "2")
    assert "test_accuracy" in notes
    require(run_command(participant, "predict", "--model", "bundle.st", *DATA, "--out", "p.csv"))
    header, *rows = list(csv.reader((tmp_path / "p.csv").open()))
    assert len(rows) == 120
    assert all(abs(sum(map(float, row[-3:])) - 1) < 1e-5 for row in rows), header
