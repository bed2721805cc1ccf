"""Claims about a participant's full disk, on a real one: nothing half written, unrecorded or piling up."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from fedap_core.errors import InvalidInput
from participant.record.disk import Disk
from participant.record.private_state import PrivateState, SavedRound
from participant.wire.departure import MOST_WAITING, MessageSender
from participant.wire.line import Address, Line
from participant.wire.message_stream import MessageStream, Outgoing
from participant.wire.sent_log import SentLog
from protocol.codec import encode
from protocol.messages import Message
from tests.support.cohorts import wait_until
from tests.support.disks import fill, small_disk
from tests.unit.participant.agents import beat, update
from tests.unit.participant.test_home_run import INITIAL, SPEC

LATE_S = 30.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as made:
        yield made


def kinds(path: Path) -> list[tuple[str, int]]:
    return [(line["kind"], line["round"]) for line in map(json.loads, path.read_text().splitlines())]


def note(log: SentLog, message: Message) -> None:
    log.note(message, encode(message))


def fill_last_page(log: SentLog) -> None:
    """Up to the end of the record's last page there is room even on a full disk."""
    for round_no in range(100):
        try:
            note(log, update(round_no))
        except OSError:
            return
    raise AssertionError("the disk is not full")


def test_nothing_is_written_into_a_folder_that_was_moved_away_or_deleted(tmp_path: Path) -> None:
    """Not even by a write that would make the folder anew."""
    made, elsewhere, written = tmp_path / "a", tmp_path / "b", tmp_path / "a" / "written"

    def write() -> None:
        written.parent.mkdir(exist_ok=True)
        written.touch()

    with PrivateState(made) as state:
        made.rename(elsewhere)
        state.disk.give_up()
        with pytest.raises(OSError, match="moved away"):
            state.disk.retry("it", write)
        made.mkdir()  # another folder of the same name
        with pytest.raises(OSError, match="moved away"):
            state.disk.retry("it", write)
        made.rmdir()
        elsewhere.rename(made)
        state.disk.retry("it", write)
        assert written.exists()
        shutil.rmtree(made)
        with pytest.raises(InvalidInput, match="a folder that is not deleted"):
            state.disk.retry("it", write)
    assert not made.exists()


@pytest.mark.parametrize("killed", [False, True])
def test_only_signs_of_life_are_recorded_on_a_full_disk_and_in_order_afterwards(disk: Path, killed: bool) -> None:
    """What lies in the room set aside finds its place whether or not the process lives to move it."""
    path = disk / "sent.jsonl"
    log = SentLog(path)
    note(log, update(0))
    ballast = fill(disk, leave=0)
    fill_last_page(log)
    before = path.read_bytes()
    assert before.endswith(b"\n")
    with pytest.raises(OSError, match="No space"):
        note(log, update(2))
    note(log, beat())
    note(log, beat())
    assert path.read_bytes() == before
    assert log.is_on_reserve
    ballast.unlink()
    if killed:
        log.close()
        log = SentLog(path)
    note(log, update(3))
    assert kinds(path)[-3:] == [("heartbeat", 0), ("heartbeat", 0), ("update", 3)]
    assert path.read_bytes().startswith(before)
    assert not log.is_on_reserve
    log.close()


def fill_reserve(log: SentLog) -> None:
    for _ in range(100):
        note(log, beat())


def test_the_room_set_aside_ends_and_then_nothing_leaves(disk: Path) -> None:
    log = SentLog(disk / "sent.jsonl", reserve_bytes=4096)
    fill(disk, leave=0)
    fill_last_page(log)
    for _ in range(10):
        note(log, beat())
    with pytest.raises(OSError, match="No space"):
        fill_reserve(log)
    log.close()


def saved(round_no: int) -> SavedRound:
    return SavedRound(kind="update", round_no=round_no, phase="mixed", model=INITIAL)


def test_a_round_is_saved_when_there_is_room_and_the_one_before_stays_until_then(disk: Path) -> None:
    with PrivateState(disk / "home", Disk(retry_s=0.01)) as state:
        run = state.run("r", SPEC)
        run.write_latest(saved(0))
        ballast = fill(disk, leave=0)
        writing = threading.Thread(target=run.write_latest, args=(saved(1),))
        writing.start()
        found = run.latest()
        assert found is not None
        assert found.round_no == 0
        assert writing.is_alive()
        ballast.unlink()
        writing.join(LATE_S)
        found = run.latest()
        assert found is not None
        assert found.round_no == 1
        assert [path.name for path in run.path.glob("round-*")] == ["round-0000001-update.safetensors"]


def test_waiting_for_room_ends_when_the_participant_is_to_stop(disk: Path) -> None:
    faults: list[str] = []
    with PrivateState(disk / "home", Disk(retry_s=2 * LATE_S)) as state:
        run = state.run("r", SPEC)
        fill(disk, leave=0)

        def write() -> None:
            try:
                run.write_latest(saved(0))
            except InvalidInput as fault:
                faults.append(str(fault))

        writing = threading.Thread(target=write)
        writing.start()
        state.disk.give_up()
        writing.join(LATE_S)
        assert not writing.is_alive()
    assert "No space left" in faults[0]


def test_what_waits_for_room_is_bounded_and_signs_of_life_pass_it(disk: Path) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = context.socket(zmq.ROUTER)
    port = router.bind_to_random_port("tcp://127.0.0.1")
    line = Line(context, Address(endpoint=f"tcp://127.0.0.1:{port}"))
    while not line.is_up:
        assert line.monitor.poll(int(1000 * LATE_S)), "no line"
        assert line.read_monitor() is None
    stream, log = MessageStream(lambda _message: True), SentLog(disk / "sent.jsonl")
    departure = MessageSender(log)
    ballast = fill(disk, leave=0)
    fill_last_page(log)
    stream.outbound.append(outgoing(update(0)))
    stream.outbound.append(outgoing(beat()))
    departure.flush(line, stream.outbound, 0.0)
    assert router.poll(int(1000 * LATE_S)), "no sign of life"
    for number in range(500):
        stream.outbound.append(outgoing(update(number)))
        stream.outbound.append(outgoing(beat()))
        departure.flush(line, stream.outbound, 0.0)
        while router.poll(0):
            assert b"heartbeat" in router.recv_multipart()[-1]
    assert len(stream.outbound) <= MOST_WAITING
    assert departure.retry_at is not None
    ballast.unlink()

    def has_left() -> bool:
        departure.flush(line, stream.outbound, 100.0)
        while router.poll(0):
            router.recv_multipart()
        return not stream.outbound

    wait_until(has_left, "everything to leave", deadline_s=LATE_S)
    assert departure.retry_at is None
    assert ("update", 499) in kinds(disk / "sent.jsonl")
    line.close()
    router.close(linger=0)
    log.close()
    context.term()


def outgoing(message: Message) -> Outgoing:
    return Outgoing(message=message, frames=tuple(encode(message)))
