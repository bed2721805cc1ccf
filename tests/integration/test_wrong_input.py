"""Claims about what people type wrong: one line that names the field, the value and what would be right; exit code 2.

The real entry points, called as the console commands call them; nothing is started and nothing is left behind.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from coordinator.cli import main as coordinator
from participant.cli import main as participant
from tests.support.cohorts import run_command
from tests.support.tiny_models import tiny_model

MEMBERS = '[members]\nnames = ["a", "b"]\n'


FACTORIES = """
import sys
def model(request): raise RuntimeError("no weights today")
def leaving(request): sys.exit(3)
def data(options): raise KeyError("patient")
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of the coordinator's kind, one of a participant's, and things that are neither."""
    folder = tmp_path_factory.mktemp("desk")
    tiny_model().write(folder / "tiny.st")
    tiny_model(body=7).write(folder / "other.st")
    save_file({"a": np.zeros(3, dtype=np.float32)}, folder / "alien.st")
    (folder / "garbage.st").write_bytes(b"garbage")
    (folder / "raising.py").write_text("1 / 0\n")
    (folder / "factories.py").write_text(FACTORIES)
    (folder / "empty").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "empty-journal").mkdir()
    (folder / "empty-journal" / "journal.sqlite").write_bytes(b"")
    np.savez(folder / "nothing.npz", z=np.zeros(3))
    (folder / "broken.npz").write_bytes(b"junk")
    options = ["--data-option", "samples=120", "--data-option", "classes=3"]
    made = run_command(
        participant, "init", "--data", "synthetic", *options, "--model", "lenet5", "--out", str(folder / "lenet.st")
    )
    assert made.code == 0, made.complaint
    return folder


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("ronds = 3", "", ["ronds", "Did you mean 'rounds'"]),
        ("", "[membrs]\nx = 1", ["membrs", "Did you mean 'members'"]),
        ("", '[members]\nname = ["a"]', ["field of members", "Did you mean 'names'"]),
        ('rounds = "three"', "", ["rounds: got three", "integer"]),
        ("rounds = -3", "", ["rounds: got -3, expected greater than or equal to 1"]),
        ("rounds = 2.5", "", ["rounds: got 2.5"]),
        ('mode = "async"', "", ["mode: got async, expected 'barrier' or 'continuous'"]),
        ('encoding = "f8"', "", ["encoding: got f8"]),
        ('algorithm = "fedap"', "", ["a table: [algorithm]"]),
        ("", '[algorithm]\nname = "fedpa"', ["fedpa", "Did you mean 'fedap'"]),
        ("", "[algorithm]\noptions = {self_wieght = 0.5}", ["self_wieght", "Did you mean 'self_weight'"]),
        ("", "[algorithm]\noptions = {self_weight = 1.5}", ["self_weight: got 1.5"]),
        ("", '[members]\nnames = ["a", "a"]', ["twice"]),
        ("", '[members]\nnames = ["a b"]', ["members.names: got a b", "letters"]),
        ("", '[members]\nnames = ["a"]\nat_least = 5', ["1 members", "at_least, 5"]),
        ("", '[members]\nkeys = "nowhere"', ["nowhere"]),
        ("", MEMBERS + "[pace]\nquorum = 5", ["pace.quorum: got 5, expected at most the 2 members"]),
        ("validation = 0.0", MEMBERS + "[pace]\npatience = 3", ["patience", "validation"]),
        ("", MEMBERS + "[pace]\nheartbeat_s = 100\ndead_after_s = 1", ["dead_after_s: got 1.0"]),
        ("", MEMBERS + '[network]\nendpoint = "tcp://0.0.0.0:5555"', ["keygen", "--insecure"]),
        ("", MEMBERS + '[network]\nendpoint = "tcp://127.0.0.1"', ["port from 1 to 65535"]),
        ("", MEMBERS + '[network]\nendpoint = "tcp://127.0.0.1:70000"', ["port from 1 to 65535"]),
        ("", MEMBERS + f'[network]\nendpoint = "tcp://127.0.0.1:{5000 * "9"}"', ["port from 1 to 65535"]),
        ("", MEMBERS + f'[page]\nlisten = "127.0.0.1:{5000 * "9"}"', ["HOST:PORT"]),
        ("", MEMBERS + '[network]\nsecret_key = "nowhere.key"', ["nowhere.key", "keygen"]),
        ("", MEMBERS + '[anchor]\nfile = "other.st"', ["anchor.file", "Same model, same classes"]),
        ("", MEMBERS + '[anchor]\nfile = "nowhere.st"', ["nowhere.st", "an existing file"]),
        ("", MEMBERS + "[anchor]\nwarmup_rounds = 100", ["warmup_rounds: got 100"]),
        ("", "[training]\nlearning_rate = inf", ["learning_rate", "finite"]),
        ("", "[training]\nlearning_rate = 1e300", ["training.learning_rate: got 1e+300", "1000"]),
        ("", '[algorithm]\nname = "raising:Strategy"', ["raising:Strategy", "ZeroDivisionError"]),
    ],
)
def test_a_wrong_configuration_is_refused_in_one_clear_line(
    desk: Path, monkeypatch: pytest.MonkeyPatch, text: str, more: str, words: list[str]
) -> None:
    monkeypatch.syspath_prepend(str(desk))
    config = desk / "wrong.toml"
    config.write_text(f'run = "r"\nfolder = "run"\ninitial = "tiny.st"\n{text}\n{more}\n')
    found = run_command(coordinator, "check", "--config", str(config))
    assert found.is_one_clear_line, found
    assert all(word in found.complaint for word in words), found.complaint
    assert "PosixPath" not in found.complaint


BEGIN = ["check", "--run", "r", "--folder", "run"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["check", "--config", "nowhere.toml"], "nowhere.toml"),
        (["check", "--config", "."], "a readable file"),
        (["check", "--config", "/dev/zero"], "larger than 1 MiB"),
        (["check"], "run: got nothing"),
        (
            [*BEGIN, "--initial", "alien.st", "--member", "a"],
            "fedap-participant init",
        ),
        ([*BEGIN, "--initial", "garbage.st", "--member", "a"], "intact safetensors"),
        ([*BEGIN, "--initial", "tiny.st", "--option", "x"], "key=value"),
        (
            [*BEGIN, "--run", "R r", "--initial", "tiny.st"],
            "run: got R r, expected name of the run",
        ),
        ([*BEGIN, "--run", "current", "--initial", "tiny.st", "--member", "a"], "run: got current"),
        (
            ["serve", "--run", "r", "--folder", "tiny.st", "--initial", "tiny.st", "--member", "a", "--member", "b"],
            "path",
        ),
        (["status", "nowhere"], "Name the run's folder"),
        (["status", "empty"], "Name the run's folder"),
        (["replay", "empty-journal"], "an intact journal"),
        (["export", "nowhere", "--participant", "a", "--out", "x.st"], "Name the run's folder"),
        (["keygen", "--out", "tiny.st"], "does not exist yet"),
        (["keygen", "--out", "tiny.st/below"], "path: got tiny.st"),
        (["keygen", "--out", "x" * 300], "File name too long"),
        (["keygen", "--out", ""], "key file: got ., expected a file to write. This is a folder."),
        (["export", "empty", "--participant", "a", "--out", "/", "--force"], "out: got /, expected a file to write"),
        ([*BEGIN, "--initial", "x" * 300, "--member", "a"], "File name too long"),
        ([*BEGIN, "--initial", "tiny.st", "--member", "\udcff"], r"argument: got \udcff, expected text in UTF-8"),
        ([*BEGIN, "--initial", "tiny.st", "--training-batches=\udcff"], "expected text in UTF-8"),
    ],
)
def test_wrong_words_to_the_coordinator_end_in_one_clear_line(
    desk: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], word: str
) -> None:
    monkeypatch.chdir(desk)
    found = run_command(coordinator, *arguments)
    assert found.is_one_clear_line, found
    assert word in found.complaint


DATA = ["--data", "synthetic", "--data-option", "samples=120", "--data-option", "classes=3"]
JOIN = ["join", *DATA, "--model-file", "lenet.st", "--name", "a"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["check", "--data", "synthetik", "--model-file", "lenet.st"], "Did you mean 'synthetic'"),
        (["check", "--data", "nowhere.npz", "--model-file", "lenet.st"], "nowhere.npz: got no such file"),
        (["check", "--data", "nothing.npz", "--model-file", "lenet.st"], "an array named 'x'"),
        (["check", "--data", "broken.npz", "--model-file", "lenet.st"], "broken.npz"),
        (["check", "--data", "synthetic", "--data-option", "sampels=9", "--model-file", "lenet.st"], "'samples'"),
        (["check", "--data", "synthetic", "--data-option", "samples=-5", "--model-file", "lenet.st"], "got -5"),
        (["check", *DATA[:-1], "classes=4", "--model-file", "lenet.st"], "classes of the data"),
        (["check", *DATA, "--model-file", "nowhere.st"], "nowhere.st"),
        (["check", *DATA, "--model-file", "tiny.st"], "of the data"),
        (["check", *DATA, "--model", "lenet6"], "Did you mean 'lenet5'"),
        (["check", *DATA, "--model", "os:getcwd"], "a function that takes a ModelRequest"),
        (["check", *DATA, "--model", "factories:model"], "It raised RuntimeError: no weights today"),
        (["check", *DATA, "--model", "factories:leaving"], "It raised SystemExit: 3"),
        (["check", *DATA, "--model", "raising:model"], "It raised ZeroDivisionError"),
        (["check", "--data", "factories:data", "--model", "lenet5"], "It raised KeyError: 'patient'"),
        (["check", *DATA, "--model-file", "lenet.st", "--algorithm", "raising:Way"], "It raised ZeroDivisionError"),
        (["check", *DATA, "--model-file", "lenet.st", "--allow", "ronds<=3"], "Did you mean 'rounds'"),
        (["check", *DATA, "--model-file", "lenet.st", "--allow", "rounds<3"], "FIELD<=NUMBER"),
        (["check", *DATA, "--model-file", "lenet.st", "--trust-code", "os"], "package.module:name"),
        (["check", *DATA], "one of --model-file and --model"),
        (["check", *DATA, "--model-file", "lenet.st", "--rounds", "9" * 20], "1000000"),
        (["check", *DATA, "--model-file", "lenet.st", "--algorithm", "fedpa"], "Did you mean 'fedap'"),
        (["check", *DATA, "--model-file", "lenet.st", "--encoding", "f8"], "encoding: got f8"),
        (["check", *DATA, "--model-file", "lenet.st", "--split", "half"], "split: got half, expected 'paper'"),
        (["check", *DATA, "--model-file", "lenet.st", "--name", "a b"], "letters, digits"),
        (["check", *DATA, "--model-file", "lenet.st", "--share", "all"], "class_counts"),
        (JOIN, "coordinator: got nothing"),
        ([*JOIN, "--coordinator", "127.0.0.1:5"], "tcp://host:port or ipc://path"),
        ([*JOIN, "--coordinator", "tcp://127.0.0.1:door"], "the port from 1 to 65535"),
        ([*JOIN, "--coordinator", "tcp://127.0.0.1:" + 5000 * "9"], "the port from 1 to 65535"),
        ([*JOIN, "--coordinator", "tcp://[::1"], "tcp://host:port or ipc://path. Invalid IPv6 URL."),
        ([*JOIN, "--coordinator", "tcp://this machine:5", "--insecure"], "an address to connect to"),
        (["check", *DATA[:2], "--data-option", f"shape={5000 * '9'}x2", "--model-file", "lenet.st"], "joined by x"),
        ([*JOIN, "--coordinator", "tcp://hospital.example:5555"], "--coordinator-key"),
        ([*JOIN, "--coordinator", "tcp://127.0.0.1:5", "--keys", "nowhere"], "both --keys and --coordinator-key"),
        ([*JOIN, "--coordinator", "tcp://127.0.0.1:5", "--give-up-s", "-3"], "give_up_s: got -3.0"),
        ([*JOIN, "--coordinator", "tcp://127.0.0.1:5", "--accept-plan", "yes"], "16 hex digits"),
        ([*JOIN, "--coordinator", "tcp://127.0.0.1:5", "--algorithm", "fedpa"], "Did you mean 'fedap'"),
        ([*JOIN, "--coordinator", "tcp://127.0.0.1:5", "--state", "tiny.st"], "tiny.st"),
        (["keygen", "--name", "a b"], "name: got a b"),
        (["keygen", "--name", "a", "--folder", "tiny.st"], "tiny.st"),
        (["predict", "--model", "garbage.st", *DATA, "--out", "o.csv"], "intact safetensors"),
        (["predict", "--model", "lenet.st", *DATA, "--out", "."], "out: got ., expected a file"),
        (["predict", "--model", "lenet.st", *DATA, "--out", "lenet.st"], "another file than --model"),
        (
            ["predict", "--model", "lenet.st", *DATA, "--out", "pipe"],
            "out: got pipe, expected a file to write. This is",
        ),
        (["init", *DATA, "--model", "lenet5", "--out", "pipe", "--force"], "This is a device or a pipe"),
        (["predict", "--model", "lenet.st", "--data", "nothing.npz", "--out", "o.csv"], "an array named 'x'"),
        (["export", "--state", "empty", "--out", "b.st"], "personal.safetensors"),
        (["init", *DATA, "--model", "lenet5", "--out", "lenet.st"], "--force"),
        (["init", *DATA, "--model", "lenet5", "--out", "new.st", "--head", "nose"], "head: got nose"),
        (["init", *DATA, "--model", "lenet5", "--out", ".", "--force"], "out: got ., expected a file to write"),
        (["export", "--state", "empty", "--out", ".", "--force"], "out: got ., expected a file to write"),
        (["check", *DATA, "--model-file", "lenet.st", "--allow", "\udcff"], "expected text in UTF-8"),
        (["check", "--data", "x" * 300, "--model-file", "lenet.st"], "got xxx"),
    ],
)
def test_wrong_words_to_a_participant_end_in_one_clear_line(
    desk: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], word: str
) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.syspath_prepend(str(desk))
    found = run_command(participant, *arguments)
    assert found.is_one_clear_line, found
    assert word in found.complaint, found.complaint
