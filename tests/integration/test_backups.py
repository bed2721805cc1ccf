"""Claims about backups: one taken after any journalled fact replaces the folder, one that was killed does not exist,
and a destination that cannot be used is refused in one line. Real processes."""

from __future__ import annotations

import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from coordinator.record.journal import JOURNAL
from coordinator.record.journal_check import read_journal
from tests.integration.test_coordinator_crashes import check_ended_alike, peers_of, settings
from tests.integration.test_damaged_folders import Halted, halted
from tests.support.cohorts import wait_until
from tests.support.disks import fill, small_disk
from tests.support.federation import WAIT_S, running
from tests.support.killed_commands import die_at_every_write
from tests.support.processes import ServeProcess, command_outcome
from tests.support.tiny_models import tiny_model


def command(log: Path, *arguments: str) -> tuple[int, str]:
    """Exit code, and all that a command of the coordinator said."""
    code, said, complaint = command_outcome(log, *arguments)
    return code, f"{said}\n{complaint}"


def halts(process: ServeProcess) -> bool:
    """Wait until it has stopped after an append; False if it has ended."""
    while True:
        wait_until(
            lambda: not process.lines.empty() or process.child.poll() is not None, "an append", deadline_s=WAIT_S
        )
        if process.lines.empty():
            return False
        if process.lines.get().startswith("appended"):
            return True


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_whose_folder_is_replaced_by_its_backup_after_any_fact_ends_alike(tmp_path: Path, every: int) -> None:
    """The coordinator stops after an append; it is backed up, killed, and started again from the backup.
    After the last fact, whoever waits for the receipt of its goodbye waits in vain, and has its model all the same."""
    model, config = tiny_model(), settings(tmp_path, tiny_model(), "fedap")
    folder, copies, appends = tmp_path / "run", list[Path](), 0
    start = partial(ServeProcess, str(config), module="tests.support.halting_coordinator", log=tmp_path / "log")
    process = start()
    peers = peers_of(model, f"ipc://{tmp_path}/socket")
    with running(peers):
        try:
            while halts(process):
                appends += 1
                if appends % every:
                    process.child.send_signal(signal.SIGCONT)
                    continue
                copies.append(tmp_path / f"copy-{appends}")
                code, said = command(tmp_path / "said", "backup", str(folder), "--out", str(copies[-1]))
                assert (code, "checked" in said) == (0, True), said
                process.kill()
                shutil.rmtree(folder)
                shutil.copytree(copies[-1], folder)
                process = start()
            assert process.wait() == 0, (tmp_path / "log").read_text()[-2000:]
        finally:
            process.close()
    check_ended_alike(peers, model, "fedap")
    assert len(copies) >= 8 // every  # facts of one moment are appended together
    for copy in copies:
        code, said = command(tmp_path / "said", "status", str(copy))
        assert (code, "Run test" in said) == (0, True), said


def backed_up(run: Halted) -> tuple[str, ...]:
    return ("backup", str(run.folder), "--out", str(run.base / "kept" / "copy"))


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_backup_leaves_nothing_under_its_name_and_can_be_repeated(tmp_path: Path, every: int) -> None:
    out = tmp_path / "kept" / "copy"
    with halted(tmp_path) as run:
        entries = len(read_journal(run.folder).sound)

        def judge() -> None:
            if out.exists():
                copied = read_journal(out)
                assert (copied.wrong, len(copied.sound)) == ("", entries)
                assert len(list(out.glob("blobs/update/*/*"))) == len(list(run.folder.glob("blobs/update/*/*")))

        deaths = die_at_every_write(
            out.parent, "coordinator.cli", *backed_up(run), judge=judge, is_done=out.exists, every=every,
            prepare=lambda: shutil.rmtree(out.parent, ignore_errors=True),
        )  # fmt: skip
        assert deaths > 6
        shutil.rmtree(run.folder)
        shutil.copytree(out, run.folder)
        run.ends_alike()


def test_a_destination_that_cannot_hold_a_backup_is_refused_in_one_line_and_left_as_it_was(tmp_path: Path) -> None:
    """An existing folder, a file in the way, a disk that is full, and one that is read-only."""
    with halted(tmp_path) as run:
        before = read_journal(run.folder).sound
        (tmp_path / "there" / "below").mkdir(parents=True)
        for out in (tmp_path / "there", tmp_path / "there" / "below", tmp_path / "run.toml" / "copy"):
            _refused(run, out)
        with small_disk(tmp_path / "disk") as disk:
            ballast = fill(disk, leave=40_000)
            _refused(run, disk / "copy")
            assert list(disk.iterdir()) == [ballast]
            ballast.unlink()
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            _refused(run, disk / "copy")
        assert read_journal(run.folder).sound == before


def _refused(run: Halted, out: Path) -> None:
    code, _, complaint = run.command("backup", str(run.folder), "--out", str(out))
    (line,) = complaint.splitlines()
    assert (code, line.startswith("error: "), str(out.parent) in line) == (2, True, True), complaint


def test_a_backup_copied_over_the_folder_is_not_mixed_with_what_was_there(tmp_path: Path) -> None:
    """The journal of the killed run has left a -wal file with later entries, which SQLite would apply to the backup."""
    with halted(tmp_path) as run:
        code, _, complaint = run.command("backup", str(run.folder), "--out", str(tmp_path / "copy"))
        assert code == 0, complaint
        assert (run.folder / f"{JOURNAL}-wal").stat().st_size > 0
        shutil.copytree(tmp_path / "copy", run.folder, dirs_exist_ok=True)
        assert f"{JOURNAL}-wal beside it belongs to another journal" in run.refused()
        run.recover()
        assert read_journal(run.folder).wrong == ""
        run.ends_alike()
