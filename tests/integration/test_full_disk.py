"""The claim that a full disk loses nothing: a coordinator on a small tmpfs pauses with a message, goes on when there is
room again, and ends with the models of a run that never paused. Mounting needs root; without it, there is no such disk.
The same for a folder or a journal that is moved away and back.
"""

from __future__ import annotations

import json
import threading
from functools import partial
from pathlib import Path

import pytest

from coordinator.cli import main as coordinator
from fedap_core.arrays import Float32Array
from participant.cli import main as participant
from tests.support.cohorts import run_command, wait_until
from tests.support.disks import fill, small_disk
from tests.support.federation import MEMBERS, WAIT_S, expected_rows, fields, require_rows
from tests.support.peer import ThreadedPeer
from tests.support.processes import ServeProcess, config_file
from tests.support.tiny_models import TinyModel, drift, moments, tiny_model, wire_moments

BODY = 20_000
"""Values of the model: 80 kB a payload, so that a round of three may write half a megabyte."""


def settings(disk: Path, elsewhere: Path, model: TinyModel, *, reserve_bytes: int) -> Path:
    chosen = fields(
        disk / "run", model.write(elsewhere / "i.safetensors"), network={"endpoint": f"ipc://{elsewhere}/socket"},
        pace={"heartbeat_s": 0.2, "dead_after_s": 20.0, "linger_s": 10.0},
        storage={"reserve_bytes": reserve_bytes},
    )  # fmt: skip
    return config_file(elsewhere / "run.toml", chosen)


def log_of(folder: Path) -> list[dict[str, object]]:
    lines = (folder / "log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def held_at(folder: Path, model: TinyModel, endpoint: str, round_no: int) -> tuple[list[ThreadedPeer], threading.Event]:
    """Three members; b sets the first event and waits for the second when it trains that round."""
    reached, go_on = threading.Event(), threading.Event()

    def work(name: str, number: int, weights: Float32Array) -> Float32Array:
        if (name, number) == ("b", round_no):
            reached.set()
            go_on.wait(WAIT_S)
        return drift(name, number, weights)

    peers = [
        ThreadedPeer(endpoint, model.hello(name), work=partial(work, name), moments=wire_moments(moments(name)))
        for name in MEMBERS
    ]
    for peer in peers:
        peer.start()
    assert reached.wait(WAIT_S), (folder / "log").read_text()[-2000:]
    return peers, go_on


@pytest.mark.parametrize(
    ("reserve", "leave", "event"),
    [
        pytest.param(2 * 2**20, 2**19, "run.paused", id="below the reserve"),
        pytest.param(0, 0, "disk.failed", id="to the last byte"),
    ],
)
def test_a_full_disk_pauses_the_run_and_changes_no_bit(tmp_path: Path, reserve: int, leave: int, event: str) -> None:
    """Filled while b trains round 1 and the others have reported; freed when the coordinator has said that it waits.
    With a reserve it stops before anything fails; without one, a write fails and is made again."""
    model = tiny_model(body=BODY)
    with small_disk(tmp_path / "disk") as disk:
        config = settings(disk, tmp_path, model, reserve_bytes=reserve)
        process = ServeProcess("serve", "--config", str(config), log=tmp_path / "log")
        peers, go_on = held_at(tmp_path, model, process.ready(), 1)
        try:
            ballast = fill(disk, leave=leave)
            go_on.set()
            waits = {event, "journal.not_written"} if not reserve else {event}
            wait_until(
                lambda: any(line["event"] in waits for line in log_of(tmp_path)),
                "the coordinator to say that it waits",
                deadline_s=WAIT_S,
            )
            assert process.child.poll() is None
            assert all(not peer.ended.is_set() for peer in peers)
            ballast.unlink()
            assert all(peer.ended.wait(WAIT_S) for peer in peers)
            assert process.wait() == 0, (tmp_path / "log").read_text()[-3000:]
        finally:
            go_on.set()
            for peer in peers:
                peer.stop()
            process.close()
    require_rows(peers, expected_rows(model, "fedap", rounds=3))
    struck = [line for line in log_of(tmp_path) if line["event"] in ("member.excluded", "member.lost")]
    assert struck == []


@pytest.mark.parametrize("moved", ["", "journal.sqlite"], ids=["the folder", "the journal alone"])
def test_a_run_whose_folder_is_moved_away_waits_until_it_is_back_and_changes_no_bit(tmp_path: Path, moved: str) -> None:
    """As when a disk is unmounted for a while, or a link replaced."""
    model = tiny_model(body=BODY)
    config = settings(tmp_path / "disk", tmp_path, model, reserve_bytes=0)
    process = ServeProcess("serve", "--config", str(config), log=tmp_path / "log")
    peers, go_on = held_at(tmp_path, model, process.ready(), 1)
    place, elsewhere = tmp_path / "disk" / "run" / moved, tmp_path / "elsewhere"
    try:
        place.rename(elsewhere)
        wait_until(
            lambda: any(line["event"] == "run.paused" for line in log_of(tmp_path)) or process.child.poll() is not None,
            "the coordinator to say that it waits",
            deadline_s=WAIT_S,
        )
        go_on.set()
        assert process.child.poll() is None, (tmp_path / "log").read_text()[-1000:]
        elsewhere.rename(place)
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert process.wait() == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        go_on.set()
        for peer in peers:
            peer.stop()
        process.close()
    (paused,) = [line for line in log_of(tmp_path) if line["event"] == "run.paused"]
    assert "No such file" in str(paused["reason"])
    require_rows(peers, expected_rows(model, "fedap", rounds=3))


def test_commands_that_write_to_a_full_disk_end_in_one_line_and_leave_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        ballast = fill(disk, leave=0)
        for main, words in (
            (coordinator, f"keygen --out {disk}/c.key"),
            (participant, f"keygen --name north --folder {disk}"),
            (participant, f"group-key --out {disk}/group.key"),
            (participant, f"init --data synthetic --model lenet5 --out {disk}/initial.safetensors"),
        ):
            outcome = run_command(main, *words.split())
            assert outcome.is_one_clear_line, outcome
            assert "No space left on device" in outcome.complaint
        assert list(disk.iterdir()) == [ballast]
