"""Claims about lines of real processes: JSON for machines, words and a bar on a terminal; each says run, round and
participant. The federation they come from meets at an ipc address."""

from __future__ import annotations

import itertools
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cohorts import small_run, wait_until
from tests.support.players import Reference, final_bits, players, run_reference
from tests.support.prefork import ROOT
from tests.support.run_files import coordinator_file, only
from tests.support.whole_runs import run_to_its_end

PLACE = {"run", "round", "participant"}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return run_reference(tmp_path_factory.mktemp("inline"), small_run("fedper", rounds=2))


class OnTerminal:
    """A command whose stderr is a terminal of its own, read as it comes."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        outer, inner = pty.openpty()
        self.child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.PIPE,
            stderr=inner,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "160", "TERM": "xterm", "OMP_NUM_THREADS": "1"},
        )
        os.close(inner)
        self._outer = outer
        self._said = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._outer, 65_536)
            except OSError:  # the other end is closed: the process has ended
                return
            if not piece:
                return
            self._said += piece

    @property
    def said(self) -> str:
        return self._said.decode(errors="replace")

    def close(self) -> None:
        """End it if it still lives."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self._reader.join()
        os.close(self._outer)
        if self.child.stdout is not None:
            self.child.stdout.close()


def test_without_a_terminal_every_line_is_json_that_says_run_round_and_participant(
    reference: Reference, tmp_path: Path
) -> None:
    run = coordinator_file(tmp_path, reference, network={"endpoint": f"ipc://{tmp_path}/socket"})
    made = run_to_its_end(tmp_path, reference, run)
    assert final_bits(made) == reference.bits
    written = [json.loads(line) for line in (tmp_path / "coordinator.log").read_text().splitlines()]
    assert all(set(line) >= PLACE and line["run"] == "whole" for line in written)
    accepted = [(line["round"], line["participant"]) for line in written if line["event"] == "update.accepted"]
    assert sorted(accepted) == [(number, name) for number in (1, 2) for name in reference.names]
    assert {line["round"] for line in written if line["event"] == "goodbye.accepted"} == {2}
    for name, one in made.items():
        text = one.log().splitlines()
        told = list(itertools.takewhile(lambda line: line.startswith("{"), text))
        lines = [json.loads(line) for line in told]
        assert lines
        assert all(set(line) >= PLACE and line["participant"] == name for line in lines)
        assert [line["round"] for line in lines if line["event"] == "round.trained"] == [1, 2]
        assert all(line["run"] == "whole" for line in lines if line["round"] is not None)
        sentences = text[len(told) :]
        assert "No samples were held back for the choice; export takes the federated model." in sentences
        assert not any(line.startswith("{") for line in sentences), "the last lines are for whoever started it"


@pytest.mark.slow
def test_on_a_terminal_lines_are_for_people_and_training_has_a_bar(reference: Reference, tmp_path: Path) -> None:
    """A member that is alone is enough: one round closes after the other as it reports."""
    (name, *_) = reference.names
    members = {"names": [name], "at_least": 1}
    run = coordinator_file(tmp_path, reference, members=members, network={"endpoint": f"ipc://{tmp_path}/socket"})
    with ExitStack() as stack:
        coordinator = OnTerminal("coordinator.cli", ["serve", "--config", str(run)])
        stack.callback(coordinator.close)
        with players(tmp_path, only(reference, [name]), f"ipc://{tmp_path}/socket") as made:
            made[name].kill()  # its shard is written; the same command once more, on a terminal
            joining = OnTerminal("participant.cli", ["join", *made[name].arguments])
            stack.callback(joining.close)
            wait_until(lambda: joining.child.poll() is not None, "the participant to end")
            wait_until(lambda: coordinator.child.poll() is not None, "the coordinator to end")
        assert (joining.child.returncode, coordinator.child.returncode) == (0, 0), joining.said
    assert "round.closed" in coordinator.said
    assert f"participant={name}" in plain(coordinator.said)
    assert "run=whole" in plain(coordinator.said)
    assert '{"' not in coordinator.said
    shown = plain(joining.said)
    assert "round 2/2" in shown
    assert "epoch 1/1" in shown
    assert "loss 0." in shown or "loss 1." in shown
    assert "accuracy" in shown
    assert '{"' not in joining.said


def plain(text: str) -> str:
    """Without the colours."""
    kept, skipping = [], False
    for char in text:
        if char == "\x1b":
            skipping = True
        elif skipping:
            skipping = not char.isalpha()
        else:
            kept.append(char)
    return "".join(kept)
