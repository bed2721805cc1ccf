"""Claims every journal keeps, whatever it is made of; and that the SQLite one keeps them across processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator.cli import main
from coordinator.record.journal import JOURNAL, Draft, Entry, Journal, NotWritten, SqliteJournal
from coordinator.record.journal_check import read_journal
from coordinator.record.snapshots import Snapshot
from fedap_core.errors import InvalidInput
from scripts.inmemory.disk import MemoryJournal
from tests.support.cohorts import run_command
from tests.unit.coordinator.test_following import ONE_ROUND, STARTED, write_run


class JournalContract:
    """What a coordinator relies on; run against every journal there is."""

    def journal(self, folder: Path) -> Journal:
        raise NotImplementedError

    @pytest.fixture
    def kept(self, tmp_path: Path) -> Iterator[Journal]:
        journal = self.journal(tmp_path)
        yield journal
        journal.close()

    def test_entries_come_back_in_the_order_of_writing(self, kept: Journal) -> None:
        serials = [kept.append([Draft(time_s=float(n), kind=f"kind-{n}", body=bytes([n]))]) for n in range(3)]
        assert serials == [1, 2, 3]
        expected = [Entry(serial=n + 1, time_s=float(n), kind=f"kind-{n}", body=bytes([n])) for n in range(3)]
        assert list(kept.entries()) == expected

    def test_entries_after_a_serial_leave_out_what_came_before(self, kept: Journal) -> None:
        for n in range(5):
            kept.append([Draft(time_s=0.0, kind="k", body=bytes([n]))])
        assert [entry.serial for entry in kept.entries(after=3)] == [4, 5]
        assert list(kept.entries(after=5)) == []

    def test_empty_bodies_and_every_byte_survive(self, kept: Journal) -> None:
        for body in (b"", bytes(range(256)) * 300):
            kept.append([Draft(time_s=0.1 + 0.2, kind="k", body=body)])
        found = list(kept.entries())
        assert [entry.body for entry in found] == [b"", bytes(range(256)) * 300]
        assert found[0].time_s == 0.1 + 0.2

    def test_newest_snapshot_wins_and_entries_stay(self, kept: Journal) -> None:
        assert kept.latest_snapshot() is None
        kept.append([Draft(time_s=0.0, kind="k", body=b"")])
        for serial in (1, 7, 30):
            kept.save_snapshot(Snapshot(serial=serial, body=bytes([serial])))
        assert kept.latest_snapshot() == Snapshot(serial=30, body=b"\x1e")
        assert len(list(kept.entries())) == 1

    def test_facts_can_be_replaced_and_absent_ones_are_none(self, kept: Journal) -> None:
        assert kept.metadata("run") is None
        kept.set_metadata("run", "a")
        kept.set_metadata("run", "b")
        assert kept.metadata("run") == "b"


class TestMemoryJournal(JournalContract):
    def journal(self, folder: Path) -> Journal:
        return MemoryJournal()


class TestSqliteJournal(JournalContract):
    def journal(self, folder: Path) -> Journal:
        return SqliteJournal(folder / "journal.sqlite")


_WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from coordinator.record.journal import Draft, SqliteJournal
journal = SqliteJournal(Path(sys.argv[1]))
for n in range(3):
    journal.append([Draft(time_s=float(n), kind="k", body=bytes([n]))])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_appended_survives_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    died = subprocess.run([sys.executable, "-c", _WRITE_AND_DIE, str(path)], check=False, cwd=Path.cwd())
    assert died.returncode == -signal.SIGKILL
    journal = SqliteJournal(path)
    assert [entry.body for entry in journal.entries()] == [b"\x00", b"\x01", b"\x02"]
    assert journal.append([Draft(time_s=3.0, kind="k", body=b"")]) == 4
    journal.close()


KILLED_WHILE_MADE = """
import os, signal, sqlite3, sys
from pathlib import Path

connect = sqlite3.connect

def watched(*arguments, **options):
    db = connect(*arguments, **options)
    db.set_trace_callback(lambda said: os.kill(os.getpid(), signal.SIGKILL) if "exists facts" in said else None)
    return db

sqlite3.connect = watched
from coordinator.record.journal import SqliteJournal
SqliteJournal(Path(sys.argv[1]) / "journal.sqlite")
"""


def test_a_journal_whose_maker_was_killed_before_its_last_table_is_made_again(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_MADE, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert read_journal(tmp_path).wrong == ""
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    assert journal.append([Draft(time_s=0.0, kind="k", body=b"1")]) == 1
    journal.close()


def test_sqlite_is_asked_to_survive_a_loss_of_power(tmp_path: Path) -> None:
    """journal_mode is stored in the file; synchronous (2 is FULL) is a property of the writing connection."""
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    connection = journal._db
    assert connection.execute("pragma synchronous").fetchone() == (2,)
    assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
    journal.close()


def test_a_reader_sees_what_a_writer_has_committed_and_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    writer = SqliteJournal(path)
    writer.append([Draft(time_s=0.0, kind="k", body=b"x")])
    reader = SqliteJournal(path, read_only=True)
    assert [entry.body for entry in reader.entries()] == [b"x"]
    writer.append([Draft(time_s=1.0, kind="k", body=b"y")])
    assert [entry.body for entry in reader.entries(after=1)] == [b"y"]
    with pytest.raises(NotWritten, match="readonly"):
        reader.append([Draft(time_s=0.0, kind="k", body=b"")])
    reader.close()
    writer.close()


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(os.urandom(5000))
    with pytest.raises(InvalidInput, match="an intact journal"):
        SqliteJournal(path)


def journal_of_format(path: Path, number: str) -> Path:
    journal = SqliteJournal(path)
    journal.append([Draft(time_s=0.5, kind="k", body=b"told")])
    journal.set_metadata("format", number)
    journal.close()
    return path


@pytest.mark.parametrize("number", ["1", "2", "99"])
def test_a_run_of_another_format_is_not_gone_on_with(tmp_path: Path, number: str) -> None:
    path = journal_of_format(tmp_path / "journal.sqlite", number)
    with pytest.raises(InvalidInput, match=rf"format {number}.*expected format 3.*the version that began this run"):
        SqliteJournal(path)


@pytest.mark.parametrize("number", ["1", "2"])
def test_a_run_of_a_format_before_can_still_be_read(tmp_path: Path, number: str) -> None:
    path = journal_of_format(tmp_path / "journal.sqlite", number)
    reader = SqliteJournal(path, read_only=True)
    assert [entry.body for entry in reader.entries()] == [b"told"]
    reader.close()
    with pytest.raises(InvalidInput, match="format 99"):
        SqliteJournal(journal_of_format(tmp_path / "newer.sqlite", "99"), read_only=True)


def test_reading_a_journal_that_does_not_exist_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the journal of a run"):
        SqliteJournal(tmp_path / "journal.sqlite", read_only=True)
    assert list(tmp_path.iterdir()) == []


def damage_page(data: bytearray) -> None:
    """The page on which the entries are: SQLite finds it malformed."""
    at = data.rindex(b"RoundOpened") // 4096 * 4096
    data[at : at + 4096] = b"\xff" * 4096


def change_entry(data: bytearray) -> None:
    """A name in an entry: SQLite finds nothing wrong, and nobody of that name has joined."""
    data[data.rindex(b'"members": ["a"') + 13] = ord("z")


@pytest.mark.parametrize("damage", [damage_page, change_entry])
@pytest.mark.parametrize("words", ["status {}", "status {} --json", "replay {}", "backup {} --out {}-copy"])
def test_a_damaged_journal_ends_commands_that_read_it_in_one_line(
    tmp_path: Path, damage: Callable[[bytearray], None], words: str
) -> None:
    folder = write_run(tmp_path / "run", [*STARTED, *ONE_ROUND])
    data = bytearray((folder / JOURNAL).read_bytes())
    damage(data)
    (folder / JOURNAL).write_bytes(data)
    outcome = run_command(main, *words.format(folder, folder).split())
    assert outcome.is_one_clear_line, outcome
    assert f"`fedap-coordinator recover {folder}`" in outcome.complaint
    assert not (tmp_path / "run-copy").exists()
