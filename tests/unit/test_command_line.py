"""What the three commands have in common: every setting is a flag and a field of a file, complaints are one line, an
interrupt is answered with a sentence, and the version is known."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from coordinator import cli as coordinator
from coordinator.config import RunConfig, make_config, overlaid
from participant import commands
from participant.cli import main as participant
from participant.config import JoinSettings, read_settings
from protocol.host.command import flags_of
from protocol.host.settings import REQUIRED, example_file, settings_of
from scripts.lab import main as lab
from tests.architecture.sources import ROOT
from tests.documents.configuration import PAGE, with_tables
from tests.support.cohorts import run_command

COMMANDS = {"coordinator.cli": coordinator.main, "participant.cli": participant, "scripts.lab": lab}
MODELS: dict[str, tuple[type[BaseModel], dict[str, str], Callable[..., None]]] = {
    "coordinator": (RunConfig, coordinator.SHORT, coordinator.serve),
    "participant": (JoinSettings, commands.SHORT, commands.join),
}
NOT_IN_A_FILE = {"config", "runs"}
"""Options of `serve` and `join` that name the files themselves."""


@pytest.mark.parametrize("side", MODELS)
def test_every_flag_has_its_name_in_a_file_and_the_other_way_round(side: str) -> None:
    model, short, command = MODELS[side]
    flags = flags_of(model, short)
    assert len(set(flags.values())) == len(flags)
    assert set(short) <= set(flags)
    offered = set(getattr(command, "__signature__").parameters) - NOT_IN_A_FILE  # noqa: B009 - set by with_settings
    assert offered == {"__".join(setting.path) for setting in settings_of(model)}
    for setting in settings_of(model):
        assert setting.description.strip(), setting.name


@pytest.mark.parametrize("side", MODELS)
def test_example_file_holds_every_setting_and_its_default(side: str, tmp_path: Path) -> None:
    model, _, _ = MODELS[side]
    text = example_file(model)
    whole = tomllib.loads("\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines()))
    for setting in settings_of(model):
        table = whole
        for part in setting.path[:-1]:
            table = table[part]
        assert setting.path[-1] in table, setting.name
    if side == "coordinator":
        assert make_config(whole).rounds == 100
        given = make_config(tomllib.loads(text))
        assert given == make_config({"run": "liver", "folder": "liver", "initial": "initial.safetensors"})
    else:
        (tmp_path / "join.toml").write_text(text)
        settings = read_settings(tmp_path / "join.toml", {})
        required = {setting.name for setting in settings_of(JoinSettings) if setting.default is REQUIRED}
        plain = {name: value for name, value in settings.model_dump().items() if name in required}
        assert settings == JoinSettings(**plain)


def test_page_has_the_tables_of_the_settings_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "python -m tests.documents.configuration"


def test_flags_override_the_file(tmp_path: Path) -> None:
    """Of the top level, of a section and of a record inside a section."""
    (tmp_path / "run.toml").write_text('run = "a"\nfolder = "f"\ninitial = "i"\n[pace]\nquorum = 3\n')
    settings = overlaid(
        tmp_path / "run.toml",
        {"rounds": 7, "pace.deadline_s": 5.0, "members.names": ["x", "y"], "training.learning_rate": 0.5},
    )
    assert (settings.rounds, settings.pace.deadline_s, settings.pace.quorum) == (7, 5.0, 3)
    assert (settings.members.names, settings.members.at_least) == (("x", "y"), 2)
    assert (settings.training.sgd.learning_rate, settings.folder) == (0.5, tmp_path / "f")


@pytest.mark.parametrize("main", COMMANDS.values(), ids=COMMANDS)
def test_complaints_about_options_are_one_line(main: Callable[[], None]) -> None:
    for words in (["nothing"], ["--nothing"]):
        ended = run_command(main, *words)
        assert ended.is_one_clear_line, ended.complaint
    assert run_command(main, "--version").out.startswith("fedap ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "--rounds", "x"], "--rounds"),
        (["serve", *["--run", "a", "--folder", "f", "--initial", "i", "--pace-quorum", "0"]], "pace.quorum: got 0"),
        (["serve", "--round", "3"], "--rounds"),
        (["status"], "folder"),
        (["export", "f", "--participant", "a"], "--out"),
        (["config"], "one of --example and --table"),
    ],
)
def test_coordinators_complaints_name_the_option(words: list[str], said: str) -> None:
    ended = run_command(coordinator.main, *words)
    assert ended.is_one_clear_line, ended.complaint
    assert said in ended.complaint


INTERRUPTED = """
import os, signal, sys
import {module} as command
def work(*_given, **_named): os.kill(os.getpid(), signal.SIGINT); signal.pause()
sys.argv = ["fedap", *{words!r}]
command.{name} = work
command.main()
"""


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("coordinator.cli", "read_run", ["replay", "folder"]),
        ("participant.cli", "load_dataset", ["init", "--data", "synthetic", "--model", "lenet5"]),
    ],
)
def test_interrupt_is_answered_with_a_sentence(module: str, name: str, words: list[str], tmp_path: Path) -> None:
    """The signal comes in the middle of the command's work, which is replaced by waiting for it."""
    program = INTERRUPTED.format(module=module, words=words, name=name)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "interrupted\n")


def test_a_run_has_momentum_and_a_falling_learning_rate_unless_it_says_otherwise() -> None:
    lines = example_file(RunConfig).splitlines()
    assert "# momentum = 0.9" in lines
    assert '# lr_schedule = "cosine"' in lines
    assert "# batch_size = 32" in lines
