"""Three hospitals as processes, one unlike the others: by default it ends with its own model, and is told so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from participant.cli import main as participant
from participant.data import load_dataset
from participant.data.base import DataOptions
from participant.data.shard import save_npz
from scripts.report.page.finding import find_runs
from tests.support.cohorts import run_command, wait_until
from tests.support.prefork import ROOT
from tests.support.processes import config_file, served

NAMES = ("alike-1", "alike-2", "odd")


def write_shares(folder: Path) -> None:
    """A third of the samples each; the odd one calls each class by another's name."""
    data = load_dataset("synthetic", DataOptions(options={"samples": "600", "classes": "3"}))
    for number, name in enumerate(NAMES):
        share = data.take(np.arange(200 * number, 200 * (number + 1)))
        save_npz(replace(share, y=(share.y + 1) % 3) if name == "odd" else share, folder / f"{name}.npz")


def joining(folder: Path, endpoint: str, name: str) -> subprocess.Popen[bytes]:
    arguments = [
        "join", "--coordinator", endpoint, "--name", name, "--data", str(folder / f"{name}.npz"),
        "--model-file", str(folder / "initial.safetensors"), "--state", str(folder / name), "--share", "comparison",
    ]  # fmt: skip
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "participant.cli", *arguments], stdout=log, stderr=log, cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip


@pytest.mark.slow
def test_hospital_that_is_unlike_the_others_keeps_its_own_model_by_default(tmp_path: Path) -> None:
    write_shares(tmp_path)
    initial = tmp_path / "initial.safetensors"
    made = run_command(
        participant, "init", "--data", str(tmp_path / "odd.npz"), "--model", "lenet5", "--out", str(initial)
    )
    assert made.code == 0, made.complaint
    chosen = {
        "run": "three", "folder": str(tmp_path / "run"), "initial": str(initial), "rounds": 8,
        "algorithm": {"name": "fedavg"}, "training": {"learning_rate": 0.05, "momentum": 0.9, "batch_size": 16},
        "members": {"names": list(NAMES), "at_least": 3}, "network": {"endpoint": "tcp://127.0.0.1:*"},
    }  # fmt: skip
    with ExitStack() as stack:
        config = config_file(tmp_path / "run.toml", chosen)
        coordinator = stack.enter_context(served(config, log=tmp_path / "c.log"))
        endpoint = coordinator.ready()
        players = [joining(tmp_path, endpoint, name) for name in NAMES]
        for one in players:
            stack.callback(one.wait)
            stack.callback(one.kill)
        wait_until(lambda: all(one.poll() is not None for one in players), "everybody to end", deadline_s=300)
        assert coordinator.wait() == 0
    told = (tmp_path / "odd.log").read_text(encoding="utf-8")
    assert "your own model is better; export takes it." in told, told
    exported = run_command(participant, "export", "--state", str(tmp_path / "odd"), "--out", str(tmp_path / "m.st"))
    assert exported.code == 0, exported.complaint
    assert exported.out.startswith("Alone you reach ")
    card = json.loads((tmp_path / "m.card.json").read_text(encoding="utf-8"))
    assert card["which"] == "alone"
    alone, together = (card["candidates"][name]["test"]["accuracy"] for name in ("alone", "federated"))
    assert alone > together + 0.2
    federated, shared = find_runs([tmp_path / "run"])
    place = federated.clients.index("odd")
    assert [run.rounds[-1].scores[place].accuracy for run in (shared, federated)] == [alone, together]  # type: ignore[union-attr]
