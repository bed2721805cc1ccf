"""Claims about peers that attack the transport itself, below the protocol: no process ends by it, memory stays bounded,
the log stays short, and the run ends with the same bits. Real processes, raw sockets."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from coordinator.record.journal import JOURNAL
from scripts.drill.hostile.floods import ATTACKS, Attackers, FillingListener
from tests.support.federation import WAIT_S, expected_rows, require_rows, running
from tests.support.few_files import FILES
from tests.support.hostility import ROUNDS, AttackedCoordinator, HostileMember, staged, wait_for
from tests.support.prefork import ROOT
from tests.support.tiny_models import tiny_model

MOST_GROWTH_KIB = 64 * 1024
SLICED = 2_700_000
"""Values of a body that travels in three slices: 10.8 MB."""


@pytest.mark.parametrize(
    ("attack", "attempts"),
    [
        ("ping-and-reset", 8),
        ("endless-multipart", 8),
        ("reconnecting", 50),
        pytest.param("fill-and-reset", 8, marks=pytest.mark.slow),
        pytest.param("tiny-frames", 8, marks=pytest.mark.slow),
        pytest.param("garbage", 20, marks=pytest.mark.slow),
        pytest.param("broken-handshake", 500, marks=pytest.mark.slow),
    ],
)
def test_a_run_under_attack_by_strangers_ends_as_without_them(tmp_path: Path, attack: str, attempts: int) -> None:
    with staged(tmp_path, tiny_model()) as stage:
        with Attackers(ATTACKS[attack], stage.endpoint, seed=7, threads=2) as attackers:
            wait_for(lambda: stage.has_ended or attackers.attempts >= attempts, "the attacks")
            assert not stage.has_ended, stage.log.read_text()[-2000:]
            stage_peak = stage.memory_kib("VmHWM")
            stage.finish()
        assert stage_peak - stage.quiet_kib < MOST_GROWTH_KIB
        assert stage.log.stat().st_size < 100_000


def test_connections_are_accepted_again_when_those_who_flooded_have_gone(tmp_path: Path) -> None:
    """A member's hello has to be written to a journal that somebody else has locked: until the coordinator gives up
    waiting (5 s), it reads nothing of what the strangers send, however slow they are."""
    with staged(tmp_path, tiny_model()) as stage:
        with sqlite3.connect(tmp_path / "run" / JOURNAL, timeout=WAIT_S) as other:
            other.execute("BEGIN IMMEDIATE")
            with (
                closing(HostileMember(stage, "b")),
                Attackers(ATTACKS["reconnecting"], stage.endpoint, seed=5, threads=4),
            ):
                wait_for(lambda: "connections.paused" in stage.log.read_text(), "connections to be held off")
            other.rollback()
        stage.finish()
        assert "all 3 rounds are done" in stage.log.read_text()


def test_strangers_that_use_up_the_descriptors_keep_no_member_out(tmp_path: Path) -> None:
    """More idle connections than the coordinator may open files, and they stay."""
    with staged(tmp_path, tiny_model(), module="tests.support.few_files") as stage, ExitStack() as strangers:
        host, port = stage.endpoint.removeprefix("tcp://").split(":")
        for _ in range(2 * FILES):
            strangers.enter_context(socket.create_connection((host, int(port)), timeout=WAIT_S))
        stage.finish()
        assert "connection.cut" in stage.log.read_text()


def test_strangers_without_a_listed_key_keep_no_member_out(tmp_path: Path) -> None:
    with staged(tmp_path, tiny_model(), curve=True) as stage:
        with Attackers(ATTACKS["broken-handshake"], stage.endpoint, seed=9, threads=4) as attackers:
            wait_for(lambda: attackers.attempts >= 1_000, "the attacks")
            stage.finish()
        log = stage.log.read_text()
        assert "connections.paused" not in log
        assert "connection.cut" not in log


@pytest.mark.parametrize("curve", [False, True], ids=["without keys", "with keys"])
def test_a_member_whose_message_is_endless_is_cut_off_and_costs_little(tmp_path: Path, *, curve: bool) -> None:
    with staged(tmp_path, tiny_model(), curve=curve) as stage:
        member = HostileMember(stage, "b")
        try:
            assert member.pour(4000)
        finally:
            member.close()
        assert stage.memory_kib("VmHWM") - stage.quiet_kib < MOST_GROWTH_KIB
        stage.finish()
        assert '"cut": 1' in stage.log.read_text()


def test_a_coordinator_that_fills_pings_and_resets_does_not_end_its_participants() -> None:
    with FillingListener(seed=3, with_pings=True) as hostile:
        line = subprocess.run(
            [sys.executable, "-m", "tests.support.plain_line", hostile.endpoint, "6"],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=WAIT_S, capture_output=True, check=False,
        )  # fmt: skip
        assert line.returncode == 0, line.stderr.decode()[-2000:]
        assert hostile.resets >= 6


@pytest.mark.slow
@pytest.mark.parametrize("curve", [pytest.param(False, id="without keys"), pytest.param(True, id="with keys")])
def test_members_with_large_models_are_never_cut_however_slowly_they_are_read(tmp_path: Path, *, curve: bool) -> None:
    """Their slices wait at a process that is stopped, and at one that hears nobody because its journal is locked."""
    with staged(tmp_path, tiny_model(body=SLICED), curve=curve, pace=_patient()) as stage:
        peers = stage.peers()
        with running(peers):
            wait_for(lambda: any(peer.log.trained for peer in peers), "the first to have trained")
            _hold_up(stage, tmp_path / "run" / JOURNAL)
            assert all(peer.ended.wait(WAIT_S) for peer in peers), stage.log.read_text()[-2000:]
            assert stage.process.wait() == 0
        require_rows(peers, expected_rows(stage.model, "fedavg", rounds=ROUNDS))
        assert '"cut": 0' in stage.log.read_text()


def _patient() -> dict[str, float]:
    return {"heartbeat_s": 0.5, "dead_after_s": 30.0, "linger_s": 5.0}


def _hold_up(stage: AttackedCoordinator, journal: Path) -> None:
    """Stopped for a moment, then at a journal that somebody else has locked until it gives up waiting (5 s)."""
    child, before = stage.process.child, stage.log.read_text().count("journal.not_written")
    with sqlite3.connect(journal, timeout=WAIT_S) as other:
        other.execute("BEGIN IMMEDIATE")
        child.send_signal(signal.SIGSTOP)
        wait_for(lambda: _state(child.pid) == "T", "the process to stand still")
        child.send_signal(signal.SIGCONT)
        wait_for(lambda: stage.log.read_text().count("journal.not_written") > before, "the journal to be missed")
        other.rollback()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
