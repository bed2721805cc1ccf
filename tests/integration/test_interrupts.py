"""Ctrl-C at any long command with its output piped: a plain line tells what it does, a sentence ends it, no traceback.

The signal goes to the whole group, as from a terminal.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from fedap_core.arrays import Float32Array
from participant.cli import main as participant
from tests.support.cohorts import group_is_alive, run_command, wait_until
from tests.support.federation import MEMBERS, fields, running
from tests.support.peer import ThreadedPeer
from tests.support.prefork import ROOT
from tests.support.processes import ServeProcess, config_file
from tests.support.tiny_models import drift, tiny_model
from tests.unit.coordinator.test_following import ONE_ROUND, STARTED, write_run

PATIENCE_S = 300.0
LAB = "interrupted; the same command resumes the runs"
HOME = "--data synthetic --model-file initial.safetensors"
SMALL = "--data synthetic --rounds 5000"


def slow(text: str) -> object:
    return pytest.param(text, marks=pytest.mark.slow, id=text.split()[1])


@pytest.mark.parametrize(
    "words",
    [
        "coordinator.cli status run --watch",
        f"participant.cli join {HOME} --coordinator ipc://nobody --name a --state state",
        f"scripts.lab compare {SMALL} --algorithms fedavg --out out",
        slow("scripts.lab demo --out out"),
        slow("scripts.lab leaderboard --quick --out out"),
        slow("scripts.lab asynchronous --quick --out out"),
        slow(f"scripts.lab attacks {SMALL} --honest 3 --out out"),
        slow(f"scripts.lab audit {SMALL} --out out"),
        slow("scripts.lab bench --quick --out out"),
        slow("scripts.lab drill --minutes 5 --out out"),
        slow("scripts.lab explore --mode barrier --small --minutes 5"),
        slow("scripts.lab fuzz --cases 1000000 --folder out"),
        slow("scripts.lab reproduce split --quick --out out"),
    ],
    ids=lambda text: text.split()[1],
)
def test_interrupt_is_answered_with_a_sentence_and_130(words: str, tmp_path: Path) -> None:
    write_run(tmp_path / "run", [*STARTED, *ONE_ROUND])
    prepare(words, tmp_path)
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    with subprocess.Popen(
        [sys.executable, "-m", *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=tmp_path, start_new_session=True, env=os.environ | environment,
    ) as process:  # fmt: skip
        try:
            lines: queue.Queue[str] = queue.Queue()
            complaints: list[str] = []
            readers = [
                threading.Thread(target=read, args=(process.stdout, lines, []), daemon=True),
                threading.Thread(target=read, args=(process.stderr, lines, complaints), daemon=True),
            ]
            for reader in readers:
                reader.start()
            first = lines.get(timeout=PATIENCE_S)
            assert "\x1b" not in first
            assert "\r" not in first
            assert process.poll() is None, complaints
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(PATIENCE_S)
            for reader in readers:
                reader.join(PATIENCE_S)
            wait_until(lambda: not group_is_alive(process.pid), "the end of all its processes")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    text = "".join(complaints)
    assert code == 130, text
    assert "Traceback" not in text
    assert complaints[-1].strip(), text
    if "scripts.lab" in words:
        assert complaints[-1].strip() == LAB
        assert text.count("interrupted") == 1


@pytest.mark.parametrize(
    ("signals", "said", "code"),
    [
        (
            1,
            [
                "stopping: the run ends after the current round; a second signal stops at once",
                "ended: stopped on request",
            ],
            0,
        ),
        (2, ["stopping: ", "stopping at once", "aborted: stopped immediately on a second request"], 1),
    ],
    ids=["once", "twice"],
)
def test_serve_says_at_once_what_an_interrupt_does_and_exits_with_how_the_run_ended(
    signals: int, said: list[str], code: int, tmp_path: Path
) -> None:
    """While member a trains the first round; the others have reported."""
    model, endpoint = tiny_model(), f"ipc://{tmp_path}/socket"
    chosen = fields(
        tmp_path / "run", model.write(tmp_path / "initial.safetensors"), algorithm="fedavg",
        network={"endpoint": endpoint},
    )  # fmt: skip
    reached, released = threading.Event(), threading.Event()

    def work(name: str, round_no: int, weights: Float32Array) -> Float32Array:
        if name == "a":
            reached.set()
            released.wait(PATIENCE_S)
        return drift(name, round_no, weights)

    config = config_file(tmp_path / "run.toml", chosen)
    process = ServeProcess("serve", "--config", str(config), log=tmp_path / "log")
    process.ready()
    with running([ThreadedPeer(endpoint, model.hello(name), work=partial(work, name)) for name in MEMBERS]):
        try:
            assert reached.wait(PATIENCE_S)
            for number in range(signals):
                process.child.send_signal(signal.SIGINT)
                assert process.lines.get(timeout=PATIENCE_S).startswith(said[number])
            released.set()
            assert process.lines.get(timeout=PATIENCE_S).startswith(said[-1])
            assert process.wait() == code
        finally:
            released.set()
            process.close()


def read(stream: IO[str], lines: queue.Queue[str], kept: list[str]) -> None:
    for line in stream:
        kept.append(line)
        lines.put(line)


def prepare(words: str, folder: Path) -> None:
    """An initial model that fits the data, for a participant."""
    if " join " in words:
        out = str(folder / "initial.safetensors")
        made = run_command(participant, "init", "--data", "synthetic", "--model", "lenet5", "--out", out)
        assert made.code == 0, made.complaint
