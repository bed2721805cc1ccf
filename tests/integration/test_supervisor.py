"""Several runs under one command: real processes, one of which is killed. The others do not notice, it is started
again, and a signal ends them all."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from coordinator.supervisor import Backoff, find_runs
from fedap_core.errors import InvalidInput
from tests.support.federation import MEMBERS, WAIT_S, expected_rows, fields, require_rows, running
from tests.support.peer import ThreadedPeer
from tests.support.processes import ServeProcess, config_file
from tests.support.tiny_models import TinyModel, drift, moments, tiny_model, wire_moments


def write_runs(folder: Path, model: TinyModel, *names: str) -> Path:
    initial, runs = model.write(folder / "initial.safetensors"), folder / "runs"
    runs.mkdir()
    for name in names:
        chosen = fields(folder / "state" / name, initial, rounds=2, network={"endpoint": endpoint(folder, name)})
        config_file(runs / f"{name}.toml", chosen | {"run": name})
    return runs


def endpoint(folder: Path, name: str) -> str:
    return f"ipc://{folder}/{name}.sock"


def peers_of(folder: Path, run: str, model: TinyModel) -> list[ThreadedPeer]:
    return [
        ThreadedPeer(
            endpoint(folder, run),
            model.hello(name),
            work=lambda round_no, weights, name=name: drift(name, round_no, weights),  # type: ignore[misc]
            moments=wire_moments(moments(name)),
        )
        for name in MEMBERS
    ]


def wait_for(process: ServeProcess, begins: str, *, also: str = "") -> str:
    """The next line of the command that begins so."""
    while True:
        line = process.lines.get(timeout=WAIT_S)
        if line.startswith(begins) and also in line:
            return line


def test_killed_run_is_started_again_beside_one_that_does_not_notice(tmp_path: Path) -> None:
    model = tiny_model()
    runs = write_runs(tmp_path, model, "liver", "lung")
    process = ServeProcess("serve", "--runs", str(runs), log=tmp_path / "log")
    try:
        pids = {}
        for _ in range(2):
            words = wait_for(process, "started:").replace(",", "").split()
            pids[words[2]] = int(words[-1])
        wait_for(process, "ready:", also="liver")
        os.kill(pids["liver"], signal.SIGKILL)
        assert wait_for(process, "exited:") == "exited: run liver, by SIGKILL; restarting in 1 s"
        again = wait_for(process, "started:", also="liver")
        assert int(again.split()[-1]) != pids["liver"]
        both = [*peers_of(tmp_path, "liver", model), *peers_of(tmp_path, "lung", model)]
        with running(both):
            assert all(peer.ended.wait(WAIT_S) for peer in both)
        assert process.wait() == 0
        require_rows(both, expected_rows(model, "fedap", rounds=2))
        over = sorted(line for line in process.lines.queue if line.startswith("stopped:"))
        assert over == ["stopped: run liver, ended", "stopped: run lung, ended"]
    finally:
        process.close()


def test_signal_ends_every_run_and_a_refused_one_is_not_started_again(tmp_path: Path) -> None:
    runs = write_runs(tmp_path, tiny_model(), "liver", "lung")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "lung").write_text("a file where the run's folder should be")
    process = ServeProcess("serve", "--runs", str(runs), log=tmp_path / "log")
    try:
        seen = [process.lines.get(timeout=WAIT_S) for _ in range(4)]
        assert any(line.startswith("ready:") and "liver" in line for line in seen), seen
        assert "stopped: run lung, refused, see the error above; correct it and start again" in seen
        process.terminate()
        assert process.wait() == 1
        assert "stopped: run liver" in "\n".join(process.lines.queue)
    finally:
        process.close()


def test_runs_that_cannot_live_beside_each_other_are_refused_by_name(tmp_path: Path) -> None:
    runs = write_runs(tmp_path, tiny_model(), "liver", "lung")
    assert [path.name for path in find_runs(runs)] == ["liver.toml", "lung.toml"]
    text = (runs / "liver.toml").read_text()
    other_run = text.replace('run = "liver"', 'run = "lung"')
    for written, said in (
        (text, r"run of lung.toml: got liver, expected a different one than in liver.toml"),
        (other_run, r"folder of lung.toml: got .*/state/liver"),
        (other_run.replace("state/liver", "state/lung"), r"network.endpoint of lung.toml: got ipc://"),
    ):
        (runs / "lung.toml").write_text(written)
        with pytest.raises(InvalidInput, match=said):
            find_runs(runs)
    with pytest.raises(InvalidInput, match="an existing folder"):
        find_runs(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="at least one"):
        find_runs(tmp_path / "empty")


def test_pauses_double_up_to_a_minute_and_begin_again_after_a_run_that_lasted() -> None:
    backoff = Backoff()
    assert [backoff.after(0.5) for _ in range(8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert backoff.after(100.0) == 1.0
    assert backoff.after(0.5) == 2.0
