"""Claims about snapshots: a state comes back equal, and what is damaged is not believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coordinator.decisions.state import State
from coordinator.record import snapshots
from coordinator.record.journal import Draft, SqliteJournal, fact_of, replay
from coordinator.record.snapshots import Snapshot
from coordinator.runs import read_run
from tests.support.federation import MEMBERS, WAIT_S, RunningCoordinator, fields, member, running
from tests.support.tiny_models import tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of FedAP that has ended: members, orders, W, recipes are all in its state."""
    base, model = tmp_path_factory.mktemp("run"), tiny_model()
    coordinator = RunningCoordinator(fields(base / "run", model.write(base / "i.safetensors"), rounds=2))
    peers = [member(coordinator, model, name) for name in MEMBERS]
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        coordinator.join()
    return base / "run"


def test_every_state_of_a_run_comes_back_equal(folder: Path) -> None:
    past = read_run(folder)
    machine = type(past.machine)(past.machine.rules)
    taken = 0
    for entry in past.journal.entries():
        machine.replay(fact_of(entry), entry.time_s)
        restored = snapshots.restore(snapshots.take(machine.state, entry.serial))
        assert restored is not None
        assert restored.digest() == machine.state.digest()
        taken += 1
    assert taken > 10


def test_replay_from_a_snapshot_gives_the_same_state_and_time(folder: Path, tmp_path: Path) -> None:
    whole = read_run(folder)
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    machine = type(whole.machine)(whole.machine.rules)
    for entry in whole.journal.entries():
        serial = journal.append([Draft(time_s=entry.time_s, kind=entry.kind, body=entry.body)])
        if serial == 8:
            replay(machine, journal)
            journal.save_snapshot(snapshots.take(machine.state, serial))
    again = type(whole.machine)(whole.machine.rules)
    assert replay(again, journal) == whole.ran_s
    assert again.digest() == whole.machine.digest()
    journal.close()


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"digest": "0", "state": {}}', b'{"digest": "0", "state": {"x": 1}}']
)
def test_a_damaged_snapshot_is_not_used(body: bytes) -> None:
    assert snapshots.restore(Snapshot(serial=1, body=body)) is None


def test_a_snapshot_whose_digest_is_another_state_s_is_not_used() -> None:
    taken = snapshots.take(State(), 1)
    found = json.loads(taken.body)
    found["state"]["round_no"] = 7
    assert snapshots.restore(Snapshot(serial=1, body=json.dumps(found).encode())) is None
