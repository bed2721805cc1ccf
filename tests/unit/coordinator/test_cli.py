"""Claims about the command: wrong input is one line and exit code 2; a folder tells its plan, history and weights."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import structlog
from safetensors.numpy import load_file

from coordinator.cli import main
from protocol.host.keys import read_key_file
from protocol.keys import parse_public
from tests.support.cohorts import wait_until
from tests.support.federation import MEMBERS, WAIT_S, RunningCoordinator, expected_rows, fields, member, running
from tests.support.processes import config_file
from tests.support.tiny_models import TinyModel, tiny_model

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedap-coordinator", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    yield run
    structlog.reset_defaults()  # `serve` points the log at a captured stream that is closed by now
    structlog.contextvars.clear_contextvars()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TinyModel]:
    """The folder of a run of two rounds that has ended."""
    base, model = tmp_path_factory.mktemp("finished"), tiny_model()
    serving = RunningCoordinator(fields(base / "run", model.write(base / "initial.safetensors"), rounds=2))
    peers = [member(serving, model, name) for name in MEMBERS]
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        serving.join()
    return base / "run", model


def test_keygen_writes_a_private_file_and_a_public_one(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("keygen", "--out", str(tmp_path / "c.key"))
    pair = read_key_file(tmp_path / "c.key")
    assert code == 0
    assert parse_public((tmp_path / "c.pub").read_text()) == pair.public
    assert pair.secret not in out + (tmp_path / "c.pub").read_text()
    assert command("keygen", "--out", str(tmp_path / "d.pub"))[0] == 2


def test_check_prints_members_local_tensors_and_when_rounds_close(command: Command, tmp_path: Path) -> None:
    """Body 1000, head 2 x 3 + 2 = 8: 1008 values of 4 bytes travel, 4 BN tensors stay."""
    initial = tiny_model().write(tmp_path / "i.safetensors")
    config = config_file(tmp_path / "run.toml", fields(tmp_path / "run", initial))
    code, out, err = command("check", "--config", str(config))
    assert (code, err) == (0, "")
    assert "Members: 3 (a, b, c)" in out
    assert "batch norm stays local; 1,008 values of 3 tensors, 4,032 bytes as f32" in out
    assert "every admitted update counts as the algorithm says (robust = none)" in out
    assert "one closes when all present members have reported" in out
    assert not (tmp_path / "run").exists()


def test_flags_override_the_file(command: Command, tmp_path: Path) -> None:
    initial = tiny_model().write(tmp_path / "i.safetensors")
    config = config_file(tmp_path / "run.toml", fields(tmp_path / "run", initial))
    code, out, _ = command("check", "--config", str(config), "--algorithm", "fedavg", "--rounds", "7")
    assert code == 0
    assert "fedavg with model tiny, 7 rounds" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("serve", "--config", "nowhere.toml"), "config"),
        (("serve", "--run", "r", "--folder", "f", "--initial", "nowhere"), "model file"),
        (("check", "--run", "r", "--folder", "f", "--initial", "x", "--endpoint", "tcp://0.0.0.0:1"), "--insecure"),
        (("status", "nowhere"), "the journal of a run"),
        (("export", "nowhere", "--participant", "a", "--out", "x"), "the journal of a run"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = command(*words)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1


def test_status_tells_of_a_run_that_has_ended(command: Command, finished: tuple[Path, TinyModel]) -> None:
    code, out, _ = command("status", str(finished[0]))
    assert code == 0
    assert "finished, all 2 rounds are done" in out
    assert all(f"\n{name} " in out for name in MEMBERS)


def test_replay_prints_what_happened_in_order(command: Command, finished: tuple[Path, TinyModel]) -> None:
    _, out, _ = command("replay", str(finished[0]))
    told = [line.split()[2] for line in out.splitlines()]
    assert told[0] == "run.began"
    assert [event for event in told if event.startswith("round.")] == ["round.opened", "round.closed"] * 2
    assert told[-1] == "run.ended"


def test_export_writes_the_bits_that_were_delivered_last(
    command: Command, finished: tuple[Path, TinyModel], tmp_path: Path
) -> None:
    folder, model = finished
    code, out, _ = command("export", str(folder), "--participant", "b", "--out", str(tmp_path / "b.safetensors"))
    assert (code, "weights mixed after round 2" in out) == (0, True)
    found = load_file(tmp_path / "b.safetensors")
    assert list(found) == ["body.weight", "head.bias", "head.weight"]
    flat = np.concatenate([found[name].ravel() for name in ("body.weight", "head.weight", "head.bias")])
    assert flat.tobytes() == expected_rows(model, "fedap", rounds=2)["b"].tobytes()


def test_export_of_somebody_unknown_names_the_nearest(
    command: Command, finished: tuple[Path, TinyModel], tmp_path: Path
) -> None:
    code, _, err = command("export", str(finished[0]), "--participant", "bb", "--out", str(tmp_path / "x"))
    assert code == 2
    assert "Did you mean 'b'?" in err


def test_status_says_why_a_run_is_paused(tmp_path: Path, command: Command) -> None:
    model = tiny_model()
    storage = {"reserve_bytes": 2**60}  # no disk has so much
    serving = RunningCoordinator(fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), storage=storage))
    with running([member(serving, model, name) for name in MEMBERS]):
        wait_until(lambda: "Paused: " in command("status", str(tmp_path / "run"))[1], "a pause", deadline_s=WAIT_S)
        _, said, _ = command("status", str(tmp_path / "run"))
        for _ in range(2):
            serving.federation.coordinator.request_stop()
        serving.join()
    (line,) = [line for line in said.splitlines() if line.startswith("Paused: ")]
    assert "bytes of disk are free" in line
    assert f"{2**60:,}"[:9] in line
