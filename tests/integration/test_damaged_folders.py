"""Claims about damaged files of a run: a coordinator stops before it changes anything and says which file it is; after
`recover` the run goes on from its members' last updates and ends with the bits of a run that nothing happened to.

Real processes and real files; the members know the protocol and nothing else.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from coordinator.decisions.facts import CaughtUp, Finished, StatisticsLost
from coordinator.record.journal import HEAD, JOURNAL, SqliteJournal, head_text
from coordinator.record.journal_check import ACCEPTS_OLDER, OBSTACLE, read_journal
from fedap_core.arrays import Float32Array
from tests.support.cohorts import wait_until
from tests.support.federation import MEMBERS, WAIT_S, expected_rows, fields, require_rows, running
from tests.support.peer import ThreadedPeer
from tests.support.processes import ServeProcess, command_outcome, config_file
from tests.support.run_files import told_facts
from tests.support.tiny_models import TinyModel, drift, moments, tiny_model, wire_moments

ROUNDS = 3


@dataclass
class Halted:
    """A run whose coordinator was killed while b trains round 1, after a and c have reported it. Members stay."""

    base: Path
    model: TinyModel
    config: Path
    peers: list[ThreadedPeer]
    go_on: threading.Event

    @property
    def folder(self) -> Path:
        return self.base / "run"

    def serve(self) -> ServeProcess:
        return ServeProcess("serve", "--config", str(self.config), log=self.base / "log")

    def command(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, what it said, and what it complained of."""
        return command_outcome(self.base / f"{arguments[0]}.log", *arguments)

    def refused(self) -> str:
        """The sentence with which the coordinator does not start; nothing of the folder has changed."""
        before = contents(self.folder)
        code, _, complaint = self.command("serve", "--config", str(self.config))
        assert code == 2, complaint
        assert contents(self.folder) == before
        (line,) = [line for line in complaint.splitlines() if not line.startswith("{")]
        return line

    def recover(self, *options: str) -> str:
        code, said, complaint = self.command("recover", str(self.folder), "--yes", *options)
        assert code == 0, complaint
        return said

    def ends_alike(self) -> None:
        """Led on, the run ends, and everybody holds what an undisturbed run gives."""
        process = self.serve()
        try:
            process.ready()
            self.go_on.set()
            assert all(peer.ended.wait(WAIT_S) for peer in self.peers)
            assert process.wait() == 0
        finally:
            process.close()
        require_rows(self.peers, expected_rows(self.model, "fedap", rounds=ROUNDS))
        for peer in self.peers:
            assert (peer.log.trained, peer.log.finish_reason) == (list(range(ROUNDS)), "rounds")
        assert [fact.reason for fact in told_facts(self.folder) if isinstance(fact, Finished)] == ["rounds"]


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the lock and SQLite's index of what is in the journal's other file."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != "lock" and not name.endswith("-shm")}


@contextmanager
def halted(base: Path, *, until: Callable[[Path], bool] | None = None) -> Iterator[Halted]:
    model = tiny_model()
    chosen = fields(
        base / "run",
        model.write(base / "initial.safetensors"),
        rounds=ROUNDS,
        network={"endpoint": f"ipc://{base}/socket"},
        pace={"heartbeat_s": 0.2, "dead_after_s": 20.0, "linger_s": 10.0},
    )
    config = config_file(base / "run.toml", chosen)
    go_on = threading.Event()

    def work(name: str, round_no: int, weights: Float32Array) -> Float32Array:
        if (name, round_no) == ("b", 1):
            go_on.wait(WAIT_S)
        return drift(name, round_no, weights)

    first = ServeProcess("serve", "--config", str(config), log=base / "log")
    endpoint = first.ready()
    peers = [
        ThreadedPeer(endpoint, model.hello(name), work=partial(work, name), moments=wire_moments(moments(name)))
        for name in MEMBERS
    ]
    with running(peers):
        blobs = base / "run" / "blobs" / "update" / "0000001"
        wait_until(lambda: len(list(blobs.glob("*"))) == 2, "two reports of round 1", deadline_s=WAIT_S)
        wait_until(lambda: len(accepted(base / "run")) == 5, "their facts", deadline_s=WAIT_S)
        first.kill()
        try:
            yield Halted(base=base, model=model, config=config, peers=peers, go_on=go_on)
        finally:
            go_on.set()


def accepted(folder: Path) -> list[object]:
    return [fact for fact in told_facts(folder) if type(fact).__name__ == "UpdateAccepted"]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


HARM: dict[str, Callable[[Path], object]] = {
    "damaged": partial(flip, at=10),
    "truncated": truncate,
    "missing": Path.unlink,
}


@pytest.mark.parametrize(
    "harm", ["damaged", *(pytest.param(one, marks=pytest.mark.slow) for one in HARM if one != "damaged")]
)
def test_an_update_that_is_damaged_is_named_and_is_sent_again_by_its_member(tmp_path: Path, harm: str) -> None:
    with halted(tmp_path) as run:
        blob = run.folder / "blobs" / "update" / "0000001" / "a"
        HARM[harm](blob)
        sentence = run.refused()
        assert str(blob) in sentence
        assert "recover" in sentence
        code, said, _ = run.command("recover", str(run.folder))
        assert (code, str(blob) in said, "nothing was changed" in said) == (0, True, True)
        run.recover()
        assert not blob.exists()
        assert len(list(run.folder.glob("damaged/*"))) == (0 if harm == "missing" else 1)
        run.ends_alike()


def test_statistics_that_are_damaged_are_measured_again(tmp_path: Path) -> None:
    with halted(tmp_path) as run:
        flip(run.folder / "blobs" / "stats" / "0000000" / "c", 3)
        assert "blobs/stats/0000000/c" in run.refused()
        run.recover()
        run.ends_alike()
        (lost,) = [fact for fact in told_facts(run.folder) if isinstance(fact, StatisticsLost)]
        assert lost.member == "c"


def test_an_update_that_is_damaged_while_the_run_continues_is_sent_again_automatically(tmp_path: Path) -> None:
    """a's update of round 1 is damaged between its admission and the mix, which waits for b."""
    with halted(tmp_path) as run:
        process = run.serve()
        try:
            process.ready()
            blob = run.folder / "blobs" / "update" / "0000001" / "a"
            flip(blob, 10)
            run.go_on.set()
            assert all(peer.ended.wait(WAIT_S) for peer in run.peers)
            assert process.wait() == 0
        finally:
            process.close()
        require_rows(run.peers, expected_rows(run.model, "fedap", rounds=ROUNDS))
        assert [peer.log.trained for peer in run.peers] == [list(range(ROUNDS))] * 3
        told = [line for line in (tmp_path / "log").read_text().splitlines() if "report.damaged" in line]
        assert [str(blob) in line for line in told] == [True]
        assert len(list(run.folder.glob("damaged/*"))) == 1


def test_an_update_that_nobody_holds_any_more_needs_the_operators_agreement(tmp_path: Path) -> None:
    """b begins again and needs the mix of round 0; a, whose update of round 0 is damaged, has finished round 1."""
    with halted(tmp_path) as run:
        a, b, c = run.peers
        run.go_on.set()
        b.stop()
        lost = run.folder / "blobs" / "update" / "0000000" / "a"
        flip(lost, 10)
        run.recover()
        again = ThreadedPeer(b.endpoint, b.hello, work=partial(drift, "b"), moments=b.moments)
        with running([again]):
            process = run.serve()
            try:
                process.ready()
                assert process.wait() == 2
            finally:
                process.close()
            code, _, complaint = run.command("recover", str(run.folder), "--yes")
            assert code == 2
            assert str(lost) in complaint
            assert "--accept-older" in complaint
            run.recover("--accept-older")
            process = run.serve()
            try:
                process.ready()
                assert all(peer.ended.wait(WAIT_S) for peer in (a, again, c))
                assert process.wait() == 0
            finally:
                process.close()
        assert (a.log.trained, again.log.trained, c.log.trained) == ([0, 1, 2], [2], [0, 1, 2])


@pytest.mark.slow
def test_the_model_of_the_start_must_be_the_one_the_run_began_with(tmp_path: Path) -> None:
    """Same tensors, other values."""
    with halted(tmp_path) as run:
        kept = (tmp_path / "initial.safetensors").read_bytes()
        tiny_model(seed=1).write(tmp_path / "initial.safetensors")
        assert "the values that this run began with" in run.refused()
        (tmp_path / "initial.safetensors").write_bytes(kept)
        run.ends_alike()


def damage_page(folder: Path) -> None:
    """A changed number in an entry: SQLite itself sees nothing wrong with it."""
    with sqlite3.connect(folder / JOURNAL) as db:
        changed = "cast(replace(cast(body as text), '\"steps\":1', '\"steps\":2') as blob)"
        db.execute(f"update entries set body = {changed} where serial > 12")
    db.close()


def forget_wal(folder: Path) -> None:
    (folder / f"{JOURNAL}-wal").unlink()
    (folder / f"{JOURNAL}-shm").unlink(missing_ok=True)


def garble(folder: Path) -> None:
    forget_wal(folder)
    (folder / JOURNAL).write_bytes(b"no journal at all" * 1000)


def empty(folder: Path) -> None:
    forget_wal(folder)
    (folder / JOURNAL).write_bytes(b"")


def delete(folder: Path) -> None:
    forget_wal(folder)
    (folder / JOURNAL).unlink()


@pytest.mark.slow
@pytest.mark.parametrize("harm", [damage_page, forget_wal, garble, empty, delete])
def test_a_journal_that_is_damaged_or_gone_is_not_started_again(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    with halted(tmp_path) as run:
        harm(run.folder)
        sentence = run.refused()
        assert str(run.folder / JOURNAL) in sentence
        code, _, complaint = run.command("recover", str(run.folder), "--yes")
        assert (code, "--accept-older" in complaint) == (2, True)
        run.recover("--accept-older")
        run.ends_alike()
        assert len([fact for fact in told_facts(run.folder) if isinstance(fact, CaughtUp)]) == 1


@pytest.mark.slow
def test_recover_does_not_promise_what_members_have_shown_to_be_impossible(tmp_path: Path) -> None:
    with halted(tmp_path) as run:
        journal = SqliteJournal(run.folder / JOURNAL)
        journal.set_metadata(OBSTACLE, "members have been told that the run is over")
        journal.close()
        code, _, complaint = run.command("recover", str(run.folder), "--yes", "--accept-older")
        assert code == 2
        assert "told that the run is over" in complaint
        assert "in its place" in complaint


@pytest.mark.slow
def test_an_agreement_to_an_older_folder_does_not_outlast_the_start_it_was_given_for(tmp_path: Path) -> None:
    """Nothing is lost here. Were the agreement kept, a folder put back later would be continued without a question."""
    with halted(tmp_path) as run:
        run.recover("--accept-older")
        run.ends_alike()
        assert dict(read_journal(run.folder).facts)[ACCEPTS_OLDER] == ""
        assert not [fact for fact in told_facts(run.folder) if isinstance(fact, CaughtUp)]


@pytest.mark.slow
def test_a_folder_older_than_the_federation_waits_for_its_operator_and_gives_nobody_a_strike(tmp_path: Path) -> None:
    """The folder of the end of round 0 is put back when members have finished round 1."""
    with halted(tmp_path) as run:
        newer = run.folder.rename(tmp_path / "newer")
        old = tmp_path / "old"
        shutil.copytree(newer, run.folder)
        _cut_journal(run.folder, "RoundOpened", 0)
        shutil.rmtree(run.folder / "blobs" / "update")
        shutil.copytree(run.folder, old)
        run.go_on.set()
        process = run.serve()
        try:
            process.ready()
            told = partial(run.command, "status", str(run.folder))
            wait_until(lambda: "the run waits" in told()[1], "all members, which are ahead", deadline_s=WAIT_S)
            assert "older than the federation by 1 round" in told()[1]
            assert "--accept-older" in told()[1]
            process.terminate()
            assert process.wait() == 2
        finally:
            process.close()
        told_kinds = {type(fact).__name__ for fact in told_facts(run.folder)}
        assert not told_kinds & {"Refused", "Quarantined", "StopAsked", "Finished"}
        run.recover("--accept-older")
        run.ends_alike()


def _cut_journal(folder: Path, kind: str, which: int) -> None:
    """Let the journal end with that entry: what a copy made at that moment holds."""
    with sqlite3.connect(folder / JOURNAL) as db:
        serials = [serial for (serial,) in db.execute("select serial from entries where kind = ? order by 1", (kind,))]
        db.execute("delete from entries where serial > ?", (serials[which],))
        (chain,) = db.execute("select chain from entries order by serial desc limit 1").fetchone()
    db.close()
    (folder / HEAD).write_text(head_text(serials[which], chain))


@pytest.mark.slow
def test_a_copy_of_a_run_under_way_can_be_put_back_when_the_run_is_lost(tmp_path: Path) -> None:
    with halted(tmp_path) as run:
        process = run.serve()
        try:
            process.ready()
            code, said, complaint = run.command("backup", str(run.folder), "--out", str(tmp_path / "copy"))
            assert (code, "checked" in said) == (0, True), complaint
        finally:
            process.kill()
        shutil.rmtree(run.folder)
        shutil.copytree(tmp_path / "copy", run.folder)
        run.ends_alike()
