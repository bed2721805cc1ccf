"""Claims about files that participants write: who may read them, and a record that grows without end."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from participant.record.model_file import make_initial, read_model, write_model
from participant.record.private_state import DamagedState, PrivateState, SavedRound
from participant.wire.sent_log import SentLog
from protocol.codec import encode
from protocol.messages import Leave, Slice
from protocol.naming import content_name
from tests.unit.participant.test_home_run import INITIAL, SPEC


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("usual_umask")
def test_a_model_for_others_can_be_read_by_them_and_a_personal_one_cannot(tmp_path: Path) -> None:
    """With umask 022, 0666 becomes 0644; what was trained on the participant's data is 0600 whatever the umask."""
    write_model(tmp_path / "initial.safetensors", SPEC, INITIAL)
    assert mode_of(tmp_path / "initial.safetensors") == 0o644
    with PrivateState(tmp_path / "home") as state:
        files = state.run("a-run", SPEC)
        files.write_start(INITIAL)
        files.write_latest(SavedRound(kind="update", round_no=0, phase="mixed", model=INITIAL))
        state.write_personal(SPEC, INITIAL, {})
    written = list((tmp_path / "home").rglob("*.safetensors"))
    assert len(written) == 3
    assert {mode_of(path) for path in written} == {0o600}


def test_a_model_file_that_cannot_be_moved_into_place_leaves_nothing_behind(tmp_path: Path) -> None:
    spec, state = make_initial(
        "lenet5", input_shape=(1, 16, 16), classes=("a", "b"), preprocessing=SPEC.preprocessing, seed=1
    )
    target = tmp_path / "taken"
    target.mkdir()
    with pytest.raises(Exception, match="a path that can be written"):
        write_model(target, spec, state)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    write_model(tmp_path / "free", spec, state)
    assert read_model(tmp_path / "free")[0] == spec


def test_a_long_record_of_what_was_sent_continues_in_a_new_file_and_loses_no_line(tmp_path: Path) -> None:
    """Five messages with room for two a file, over two lives of the process: 2 + 2 + 1 lines, in order."""
    messages = [Leave(run="a-run", reason=f"reason {number}") for number in range(5)]
    probe = SentLog(tmp_path / "probe.jsonl")
    probe.note(messages[0], encode(messages[0]))
    probe.close()
    room = int(2.5 * (tmp_path / "probe.jsonl").stat().st_size)
    path = tmp_path / "home" / "sent.jsonl"
    for life in (messages[:3], messages[3:]):
        log = SentLog(path, file_bytes=room)
        for message in life:
            log.note(message, encode(message))
        log.close()
    names = ["sent-000001.jsonl", "sent-000002.jsonl", "sent.jsonl"]
    assert sorted(one.name for one in path.parent.glob("*.jsonl")) == names
    lines = [[json.loads(line) for line in (path.parent / name).read_text().splitlines()] for name in names]
    assert [len(file) for file in lines] == [2, 2, 1]
    hashes = [line["hash"] for file in lines for line in file]
    assert len(set(hashes)) == 5


def test_a_slice_is_recorded_by_its_payloads_name_and_its_place(tmp_path: Path) -> None:
    """The name stands for every byte; the header is 1 of the frames and counts among the bytes."""
    log = SentLog(tmp_path / "sent.jsonl")
    piece = Slice(transfer=content_name(b"abcdefgh", slice_bytes=4), offset=4, data=memoryview(b"efgh"))
    frames = encode(piece)
    log.note(piece, frames)
    log.close()
    line = json.loads((tmp_path / "sent.jsonl").read_text())
    assert line.pop("time")
    expected = {"kind": "slice", "bytes": len(frames[0]) + 4, "names": [], "transfer": piece.transfer, "offset": 4}
    assert line == expected


def test_a_damaged_note_of_the_current_run_only_means_that_none_is_known(tmp_path: Path) -> None:
    with PrivateState(tmp_path) as state:
        state.run("a-run", SPEC).write_start(INITIAL)
        state.set_current("a-run")
        assert state.current_run() == "a-run"
        for damaged in (b"\xff\xfe", b"\0", b"", b"../.."):
            (tmp_path / "state" / "current").write_bytes(damaged)
            assert state.current_run() is None


def test_a_saved_round_that_the_disk_changed_or_lost_is_named_and_not_used(tmp_path: Path) -> None:
    """Some 200 bits all over the file: each change is found, or concerns nothing that is taken from it."""
    with PrivateState(tmp_path) as state:
        files = state.run("a-run", SPEC)
        saved = SavedRound(kind="update", round_no=3, phase="mixed", model=INITIAL, facts={"steps": 4})
        files.write_latest(saved)
        (path,) = files.path.glob("round-*")
        whole = path.read_bytes()
        found = advised = 0
        for bit in range(0, 8 * len(whole), 8 * len(whole) // 200 + 1):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            try:
                read = files.latest()
            except DamagedState as error:
                found += 1
                advised += "join again" in str(error)
                continue
            assert read is not None
            assert (read.round_no, read.facts) == (3, {"steps": 4})
            assert all(torch.equal(read.model[name], INITIAL[name]) for name in INITIAL)
        assert found == advised
        assert found > 100
        path.unlink()
        with pytest.raises(DamagedState, match="missing"):
            files.latest()
