"""The claim that a coordinator's memory does not grow with its members' models: 20 of AlexNet's size in 1.5 GiB."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from protocol.messages import Finish, Goodbye, Message, Slice, Train, Update
from protocol.tensors import TensorSet
from tests.support.federation import fields, running
from tests.support.peer import ThreadedPeer
from tests.support.processes import ServeProcess, config_file
from tests.support.tiny_models import TinyModel, tiny_model

PARAMETERS = 57_000_000
MEMBERS = tuple(f"p{number:02d}" for number in range(20))
MOST_KIB = 1_572_864
PATIENCE_S = 3_000.0


class CountingPeer(ThreadedPeer):
    """Counts what it is sent instead of keeping it; all of them send the same bytes, which lie in memory once."""

    update: TensorSet

    def _reserve(self, tensors: TensorSet) -> None:
        """Nothing: slices are judged and dropped."""

    def _store(self, piece: Slice) -> None:
        """Nothing."""

    def _answer(self, message: Message) -> Message:
        run = str(self._talk.run)
        if isinstance(message, Finish):
            self.log.finish_reason = message.reason
            return Goodbye(run=run, round_no=message.round_no, scores=())
        if not isinstance(message, Train):
            raise TypeError(f"no order of this run: {message.KIND}")
        return Update(
            run=run, round_no=message.round_no, steps=1, train_loss=None, scores=(), weights=self.update
        )  # fmt: skip


def light_peers(endpoint: str, model: TinyModel) -> list[CountingPeer]:
    flat = np.full(model.shared(()).size, 0.25, dtype=np.float32)
    hello = {name: model.hello(name) for name in MEMBERS}
    made = [CountingPeer(endpoint, hello[name], work=lambda _round_no, weights: weights) for name in MEMBERS]
    layout = model.wire_layout(())
    update = TensorSet.of_flat(layout, flat)
    for peer in made:
        peer.update = update
    return made


def watched_peak_kib(process: ServeProcess) -> int:
    """VmHWM as long as the process lives; it never falls, so the last reading counts."""
    status, peak = Path(f"/proc/{process.child.pid}/status"), 0
    for _ in range(int(PATIENCE_S)):
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        peak = int(found[1]) if found else peak
        try:
            process.child.wait(1.0)
        except subprocess.TimeoutExpired:
            continue
        return peak
    raise AssertionError("the run does not end")


@pytest.mark.slow
def test_twenty_members_of_57_million_parameters_fit_into_1_5_gib(tmp_path: Path) -> None:
    model = tiny_model(body=PARAMETERS)
    settings = fields(
        tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg", rounds=1,
        members={"names": MEMBERS, "at_least": 20}, network={"endpoint": f"ipc://{tmp_path}/socket"},
        pace={"heartbeat_s": 10.0, "dead_after_s": 600.0, "linger_s": 60.0},
    )  # fmt: skip
    process = ServeProcess("serve", "--config", str(config_file(tmp_path / "c.toml", settings)), log=tmp_path / "log")
    peers = light_peers(process.ready(), model)
    with running(peers):
        peak = watched_peak_kib(process)
        assert process.wait() == 0, (tmp_path / "log").read_text()[-2000:]
    assert [peer.log.finish_reason for peer in peers] == ["rounds"] * 20
    assert peak < MOST_KIB
