"""Claims about a log under fire: repetitions become a number, files are put aside, and a wrong path is one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from coordinator.observers import log_lines as coordinator_logs
from fedap_core.errors import InvalidInput
from participant import progress
from protocol.host import logs
from protocol.repeats import AT_ONCE


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def configured(room: str, path: Path) -> None:
    if room == "participant":
        progress.configure_logging(terminal=False, file=path)
    else:
        coordinator_logs.configure_logs("run", path)


@pytest.mark.parametrize("room", ["participant", "coordinator"])
def test_a_thousand_faulty_messages_are_a_few_lines_and_others_stay(tmp_path: Path, room: str) -> None:
    path = tmp_path / "log" / "file"
    configured(room, path)
    log = structlog.get_logger()
    for number in range(1_000):
        log.warning("message.faulty", reason=f"garbage {number}")
        log.info("round.trained", round=number)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(line["event"] == "message.faulty" for line in lines) == AT_ONCE
    assert sum(line["event"] == "round.trained" for line in lines) == 1_000
    assert all({"run", "round", "participant"} <= set(line) for line in lines)


def test_the_number_of_what_was_not_told_is_told_at_the_end(tmp_path: Path) -> None:
    coordinator_logs.configure_logs("run", tmp_path / "file")
    log = structlog.get_logger()
    for _ in range(4_322):
        log.warning("message.refused", participant="b")
    log.info("coordinator.ended")
    *_, counted, ended = [json.loads(line) for line in (tmp_path / "file").read_text().splitlines()]
    assert (counted["event"], counted["of"], counted["more"]) == ("lines.counted", "message.refused b", 4_312)
    assert ended["event"] == "coordinator.ended"


@pytest.mark.parametrize("room", ["participant", "coordinator"])
def test_a_log_file_is_put_aside_and_a_bounded_number_is_kept(tmp_path: Path, room: str) -> None:
    """Lines of 1 MB: ten fill a file, and ninety would be nine files, of which six may be there."""
    configured(room, tmp_path / "file")
    log = structlog.get_logger()
    for _ in range(90):
        log.info("line.long", text="x" * (1 << 20))
    files = list(tmp_path.iterdir())
    assert len(files) == 1 + logs.FILES_KEPT
    assert all(file.stat().st_size <= logs.FILE_BYTES for file in files)


@pytest.mark.parametrize("room", ["participant", "coordinator"])
def test_a_log_file_that_cannot_be_written_is_refused_with_a_sentence(tmp_path: Path, room: str) -> None:
    with pytest.raises(InvalidInput, match="log-file"):
        configured(room, tmp_path)
