"""The wheel without extras in an environment of its own: no torch, and a coordinator that serves a whole run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.support.federation import MEMBERS, WAIT_S, expected_rows, fields, require_rows, running
from tests.support.peer import ThreadedPeer
from tests.support.processes import config_file
from tests.support.tiny_models import drift, moments, tiny_model, wire_moments

_PACKAGES = ("coordinator", "participant", "protocol", "fedap_core", "scripts")
_FILES = ("pyproject.toml", "README.md", "LICENSE", "fedap.py")
HEAVY = ("torch", "torchvision", "matplotlib", "PIL", "starlette", "monai", "onnx", "mlflow", "cryptography")
"""What no coordinator needs."""


def done(*command: str | Path, cwd: Path) -> str:
    """Without PYTHONPATH: a source tree on it would count as installed."""
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=cwd, timeout=900,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )  # fmt: skip
    if "No matching distribution" in result.stderr or "Could not find a version" in result.stderr:
        pytest.skip("no package index can be reached")
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("bare")
    source = folder / "source"
    for name in _PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy(ROOT / name, source / name)
    done(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source, cwd=folder)
    (wheel,) = folder.glob("fedap-*.whl")
    done(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    done(folder / "venv/bin/python", "-m", "pip", "install", "-q", wheel, cwd=folder)
    return folder / "venv"


@pytest.mark.slow
def test_bare_install_is_small_and_brings_no_torch(bare: Path) -> None:
    look = f"import importlib.util as u; print([name for name in {HEAVY!r} if u.find_spec(name)])"
    assert done(bare / "bin/python", "-c", look, cwd=bare).strip() == "[]"
    (packages,) = bare.glob("lib/python*/site-packages")
    assert megabytes(packages) < 250.0  # 158 MB, pip and setuptools among them; torch alone has more than 600


@pytest.mark.slow
def test_coordinator_of_the_bare_install_serves_a_run_to_its_end(bare: Path, tmp_path: Path) -> None:
    model = tiny_model()
    chosen = fields(
        tmp_path / "run", model.write(tmp_path / "initial.safetensors"), rounds=2,
        network={"endpoint": f"ipc://{tmp_path}/socket"}, pace={"heartbeat_s": 0.2, "linger_s": 10.0},
    )  # fmt: skip
    config = config_file(tmp_path / "run.toml", chosen)
    assert "Run " in done(bare / "bin/fedap-coordinator", "check", "--config", config, cwd=tmp_path)
    peers = [
        ThreadedPeer(
            f"ipc://{tmp_path}/socket", model.hello(name), moments=wire_moments(moments(name)),
            work=lambda round_no, weights, name=name: drift(name, round_no, weights),  # type: ignore[misc]
        )
        for name in MEMBERS
    ]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        serving = subprocess.Popen(
            [bare / "bin/fedap-coordinator", "serve", "--config", config], stdout=log, stderr=log, cwd=tmp_path
        )
    try:
        with running(peers):
            assert serving.wait(WAIT_S) == 0, (tmp_path / "log").read_text()
            for peer in peers:
                peer.join(WAIT_S)
    finally:
        serving.kill()
        serving.wait()
    require_rows(peers, expected_rows(model, "fedap", rounds=2))
    status = done(bare / "bin/fedap-coordinator", "status", tmp_path / "run", cwd=tmp_path)
    assert "finished" in status
    complaint = subprocess.run(
        [bare / "bin/fedap-participant", "formats"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (complaint.returncode, len(complaint.stderr.splitlines())) == (2, 1)
    assert "pip install 'fedap[participant]'" in complaint.stderr
