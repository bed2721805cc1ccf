"""The examples do what they say: scripts run, services and images name commands, options and files that exist."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator.config import read_config
from tests.architecture.commands import command_faults
from tests.architecture.sources import ROOT
from tests.architecture.test_documents import BUILD, built_trees

EXAMPLES = ROOT / "examples"
DOCKERFILES = sorted((EXAMPLES / "docker").glob("*.Dockerfile"))
UNITS = sorted((EXAMPLES / "systemd").glob("*.service"))
KNOWN = {"FROM", "COPY", "RUN", "USER", "WORKDIR", "STOPSIGNAL", "ENTRYPOINT", "CMD"}


SETTINGS = {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PAGE_PORT": "0"}
"""No windows, cores for all of them, and a free port."""


def run(script: str, folder: Path, *arguments: str) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        [str(EXAMPLES / script), str(folder), *arguments],
        capture_output=True, text=True, check=False, timeout=900,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **SETTINGS},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_three_hospitals_go_from_data_to_predictions(tmp_path: Path) -> None:
    """Png, DICOM and npz files with other classes each, a coordinator that is killed, a hospital that fits nobody, and
    exported models that onnxruntime and MONAI open."""
    out = run("three-hospitals/run.sh", tmp_path)
    assert "Run three-hospitals: finished" in out
    assert "killed the coordinator" in out
    assert "Fits nobody: east" in out
    assert "Your data differ from those of all other members" in (tmp_path / "east.txt").read_text()
    assert "takes nothing from others" in (tmp_path / "east-export.txt").read_text()
    predicted = {"north": "cyst", "south": "abscess", "east": "cyst"}
    for name, label in predicted.items():
        rows = (tmp_path / f"{name}.csv").read_text().splitlines()[1:]
        assert len(rows) == 10
        assert sum(row.split(",")[1] == label for row in rows) >= 8, rows
        card = json.loads((tmp_path / f"{name}.card.json").read_text())
        assert card["candidates"][card["which"]]["test"]["accuracy"] > 0.8, card["candidates"]
    assert out.count("largest difference from predict") == 2


@pytest.mark.slow
def test_own_algorithm_is_compared_under_its_name(tmp_path: Path) -> None:
    out = run("own-algorithm/run.sh", tmp_path, "--rounds", "1")
    assert "Half" in out


def test_own_model_becomes_an_initial_model_file(tmp_path: Path) -> None:
    out = run("own-model/run.sh", tmp_path)
    assert "my_model:small for" in out
    assert "stays local" in out


def test_run_file_of_the_example_is_a_configuration() -> None:
    config = read_config(EXAMPLES / "three-hospitals/run.toml")
    assert config.members.keys == EXAMPLES / "three-hospitals/members"


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """(where, words) of every command that a service, an image or the compose file starts."""
    for unit in UNITS:
        for line in unit.read_text().splitlines():
            if line.startswith("ExecStart="):
                yield unit.name, line.removeprefix("ExecStart=/opt/fedap/bin/").split()
    for path in DOCKERFILES:
        found = instructions(path)
        yield path.name, [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])]
    for name, service in compose()["services"].items():
        entry = json.loads(instructions(ROOT / service["build"]["dockerfile"])["ENTRYPOINT"])
        yield f"compose {name}", [*entry, *service["command"]]


def instructions(path: Path) -> dict[str, str]:
    """The instructions of a Dockerfile; none of these has two of a kind."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / "docker/compose.yaml").read_text())
    return found


def test_commands_of_services_and_images_exist_with_their_options() -> None:
    trees, lines = built_trees(), list(command_lines())
    assert len(lines) == len(UNITS) + len(DOCKERFILES) + 2
    found = [
        (where, fault)
        for where, words in lines
        for fault in command_faults(words, trees=trees, file_exists=lambda name: (ROOT / name).exists())
    ]
    assert found == []
    assert all(words[0] in trees for _, words in lines)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_image_installs_the_extra_that_its_side_needs(path: Path) -> None:
    found = instructions(path)
    assert set(found) <= KNOWN
    extra = "[participant]" if path.name.startswith("participant") else ""
    assert f"/src{extra}" in found["RUN"].replace("'", "").split()
    assert not extra or extra.strip("[]") in BUILD["project"]["optional-dependencies"]
    assert found["STOPSIGNAL"] == "SIGKILL", "SIGTERM ends a run, a killed process resumes"


def test_compose_file_publishes_the_coordinators_port_alone() -> None:
    services = compose()["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["coordinator"]
    for service in services.values():
        assert (ROOT / service["build"]["dockerfile"]).is_file()
        assert service["restart"] == "on-failure"


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_service_passes_the_check_of_systemd(unit: Path, tmp_path: Path) -> None:
    """The programs of the units are put where the check finds them: it asks whether they can be executed."""
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("systemd-analyze is not installed")
    (tmp_path / "bin").mkdir()
    for name in ("fedap-coordinator", "fedap-participant"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    copy = tmp_path / unit.name.replace("@.", "@north.")
    copy.write_text(unit.read_text().replace("/opt/fedap/bin", str(tmp_path / "bin")))
    done = subprocess.run(
        [analyse, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False, timeout=60
    )
    said = [line for line in done.stderr.splitlines() if unit.name.partition(".")[0].partition("@")[0] in line]
    assert (done.returncode, said) == (0, []), done.stderr
