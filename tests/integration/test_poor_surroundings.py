"""Claims about processes whose machine gives them little: no place for their output, few open files, no folder to be
in. Real processes, started by a shell as an operator would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.federation import MEMBERS, WAIT_S, expected_rows, fields, require_rows, running
from tests.support.peer import ThreadedPeer
from tests.support.prefork import ROOT
from tests.support.processes import config_file
from tests.support.tiny_models import drift, moments, tiny_model, wire_moments


def shell(before: str, *arguments: str, after: str = "") -> subprocess.Popen[str]:
    """A command of the project. before, after: what the shell does to its surroundings."""
    script = f'{before} exec "$@" {after}'
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", sys.executable, "-m", *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("after", "log"),
    [(">/dev/full 2>&1", None), (">&- 2>&-", None), ("", "/dev/full")],
    ids=["on a full disk", "closed", "a log file on a full disk"],
)
def test_a_run_ends_well_though_its_output_can_be_written_nowhere(tmp_path: Path, after: str, log: str | None) -> None:
    model, endpoint = tiny_model(), f"ipc://{tmp_path}/socket"
    settings = fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), network={"endpoint": endpoint})
    settings |= {} if log is None else {"log_file": log}
    file = config_file(tmp_path / "c.toml", settings)
    peers = [
        ThreadedPeer(
            endpoint,
            model.hello(name),
            work=lambda round_no, weights, name=name: drift(name, round_no, weights),  # type: ignore[misc]
            moments=wire_moments(moments(name)),
        )
        for name in MEMBERS
    ]
    with shell("", "coordinator", "serve", "--config", str(file), after=after) as process, running(peers):
        try:
            assert all(peer.ended.wait(WAIT_S) for peer in peers)
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()
    require_rows(peers, expected_rows(model, "fedap", rounds=3))


@pytest.mark.parametrize("command", ["coordinator", "participant"])
def test_a_limit_of_open_files_that_is_too_low_is_refused_in_one_line(tmp_path: Path, command: str) -> None:
    model = tiny_model().write(tmp_path / "i.safetensors")
    arguments = {
        "coordinator": ("serve", "--config", str(config_file(tmp_path / "c.toml", fields(tmp_path / "run", model)))),
        "participant": (
            "join", "--coordinator", "tcp://127.0.0.1:1", "--name", "a", "--data", "synthetic",
            "--model-file", str(model), "--state", str(tmp_path / "state"),
        ),
    }[command]  # fmt: skip
    with shell("ulimit -n 40;", command, *arguments) as process:
        _, complaint = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2
    assert complaint.startswith("error: open files: got a limit of 40, expected at least ")
    assert complaint.count("\n") == 1
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "state").exists()


def test_a_current_folder_that_is_gone_is_named_in_one_line(tmp_path: Path) -> None:
    file = config_file(tmp_path / "c.toml", fields(tmp_path / "run", tiny_model().write(tmp_path / "i.safetensors")))
    gone = tmp_path / "gone"
    before = f"export PYTHONPATH={ROOT}; mkdir {gone}; cd {gone}; rmdir {gone};"
    with shell(before, "coordinator", "check", "--config", str(file), "--folder", "run") as process:
        _, complaint = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2
    assert complaint.startswith("error: current folder: ")
    assert complaint.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "after", "complaint"),
    [
        (("config", "--table"), ">/dev/full", "error: disk: got standard output, "),
        (("check", "--folder", "~nobody-of-this-name/run"), "", "error: path: got one that begins with ~, "),
    ],
    ids=["output on a full disk", "a home folder that does not exist"],
)
def test_what_the_machine_lacks_is_named_in_one_line(arguments: tuple[str, ...], after: str, complaint: str) -> None:
    with shell("", "coordinator", *arguments, after=after) as process:
        _, said = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2
    assert said.startswith(complaint)
    assert said.count("\n") == 1
