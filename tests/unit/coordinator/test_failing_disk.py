"""Claims about a disk that fails: nobody is blamed, the run pauses, and goes on from where it stood."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coordinator.computing.jobs import Jobs, refs_of
from coordinator.decisions import events, facts
from coordinator.decisions.actions import Aggregate, Discard, Inspect
from coordinator.decisions.events import InspectionFailed, StorageFree, StorageLow
from coordinator.decisions.state import State
from coordinator.record.disk import SpaceGuard
from coordinator.record.journal import Draft, Ledger, NotWritten, SqliteJournal
from coordinator.record.model_forms import ModelFile, ModelForms
from coordinator.record.store import Store
from fedap_core.strategies import Measure, Phase, make_strategy
from protocol.messages import Step
from protocol.tensors import TensorSet
from tests.support.machines import Bench, find, messages, open_members, rules_for
from tests.support.tiny_models import tiny_model


def test_a_report_that_our_disk_lost_is_no_strike_and_is_asked_for_again() -> None:
    bench = Bench(rules_for("fedavg", members=open_members(2)))
    bench.join("a", "b")
    bench.auto = False
    bench.update("a", 0)
    bench.work.clear()
    answers = bench.do(InspectionFailed(member="a", kind="update", round_no=0, reason="I/O error"))
    assert len(find(answers, Discard)) == 1
    (error,) = messages(answers, "error")
    assert error.message.code == "no-space"  # type: ignore[attr-defined]
    assert bench.machine.state.members["a"].strikes == 0
    assert bench.machine.wants("a", Step(kind="update", round_no=0))
    bench.auto = True
    bench.updates(0, "a", "b")
    assert bench.machine.state.round_no == 1


def test_mixing_that_the_disk_interrupted_is_done_when_the_run_continues() -> None:
    bench = Bench(rules_for("fedavg", members=open_members(2)))
    bench.join("a", "b")
    bench.auto = False
    bench.updates(0, "a", "b")
    bench.finish_work()
    bench.finish_work()
    (mix,) = [work for work in bench.work if isinstance(work, Aggregate)]
    bench.work.clear()
    low = StorageLow(free_bytes=10, needed_bytes=5, reason="I/O error")
    assert find([*bench.do(low), *bench.do(events.WorkInterrupted(ticket=mix.ticket))], Aggregate) == []
    assert bench.facts(facts.Paused)[0].reason == "I/O error"
    (again,) = find(bench.do(StorageFree(free_bytes=10)), Aggregate)
    assert (again.receivers, again.givers) == (mix.receivers, mix.givers)
    bench.finish_work()
    assert bench.machine.state.round_no == 1


def test_reports_are_judged_and_none_is_blamed_where_blobs_cannot_be_written(tmp_path: Path) -> None:
    """A file stands where the folder of updates should be: every attempt to keep one fails, whoever sent it."""
    model, rules = tiny_model(), rules_for("fedavg")
    store = Store(tmp_path)
    initial = ModelFile(model.write(tmp_path / "i.safetensors"))
    forms = ModelForms(initial=initial, anchor=None, strategy=make_strategy("fedavg"), encoding="f32", store=store)
    jobs = Jobs(store=store, forms=forms, spec=model.spec, rules=rules)
    asked = []
    for name, value in (("a", 1.0), ("b", np.nan)):
        action = Inspect(
            member=name, kind="update", round_no=0, phase=Phase.MIXED, sent=None, limit=None, measure=Measure.NONE,
            samples=100, announced=100,
        )  # fmt: skip
        flat = np.full(model.shared(()).size, value, dtype=np.float32)
        for ref in refs_of(action):
            store.stage(ref, TensorSet.of_flat(model.wire_layout(()), flat))
        asked.append(action)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "update").write_text("in the way")
    failed, refused = jobs.inspect(asked)
    assert isinstance(failed, InspectionFailed)
    assert isinstance(refused, events.Inspected)
    assert (failed.member, refused.member, refused.code) == ("a", "b", "not-finite")
    assert not any(store.is_staged(ref) for action in asked for ref in refs_of(action))


class SimulatedDisk:
    """What a guard sees of a disk, and a clock."""

    def __init__(self) -> None:
        self.free, self.works, self.now = 1000, True, 0.0
        self.guard = SpaceGuard(
            free_bytes=lambda: self.free, can_write=lambda: self.works, members=lambda: 2, row_bytes=10,
            reserve_bytes=100, clock=lambda: self.now,
        )  # fmt: skip


def test_a_disk_that_failed_with_room_on_it_is_tried_after_a_while() -> None:
    disk = SimulatedDisk()
    assert disk.guard.failed("I/O error").reason == "I/O error"
    assert disk.guard.check(opening=False) is None
    disk.now, disk.works = 1.0, False
    assert disk.guard.check(opening=False) is None
    disk.works = True
    assert disk.guard.check(opening=False) == StorageFree(free_bytes=1000)


def test_a_disk_that_fails_again_and_again_is_tried_less_and_less_often() -> None:
    disk, waits = SimulatedDisk(), []
    for _ in range(8):
        disk.guard.failed("I/O error")
        began = disk.now
        while disk.guard.check(opening=False) is None:
            disk.now += 0.5
        waits.append(disk.now - began)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_facts_that_could_not_be_written_are_the_first_to_be_written_later(tmp_path: Path) -> None:
    """SQLite is told that the file may not grow: the error is that of a full disk."""
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    ledger = Ledger(journal, traffic=dict, traffic_file=None)
    pages = journal._db.execute("pragma page_count").fetchone()[0]
    journal._db.execute(f"pragma max_page_count = {pages}")
    ledger.add(facts.Left(member="a", reason="x" * 10_000), 1.0)
    with pytest.raises(NotWritten, match="full"):
        ledger.commit(State())
    ledger.add(facts.StopAsked(), 2.0)
    with pytest.raises(NotWritten, match="full"):
        ledger.commit(State())
    assert list(journal.entries()) == []
    journal._db.execute(f"pragma max_page_count = {pages + 100}")
    ledger.commit(State())
    ledger.commit(State())
    assert [(entry.serial, entry.kind) for entry in journal.entries()] == [(1, "Left"), (2, "StopAsked")]
    assert journal.append([Draft(time_s=3.0, kind="k", body=b"")]) == 3
    journal.close()
