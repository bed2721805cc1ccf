"""Claims about following a run from another process: the journal as it grows or is replaced, and what is beside it."""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.config import make_config
from coordinator.decisions import facts
from coordinator.observers.pulse_file import PulseFile
from coordinator.record.journal import JOURNAL, Draft, SqliteJournal, fields_of
from coordinator.record.traffic import TrafficCounts
from coordinator.watching.following import RunFollower
from coordinator.watching.sentences import sentence_of
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import METADATA_KEY
from protocol.host.locks import is_locked
from tests.support.tiny_models import tiny_model
from tests.unit.coordinator.test_progress import closed, opened, score, update

Told = Sequence[tuple[float, facts.Fact]]


def joined(member: str) -> facts.Joined:
    return facts.Joined(member=member, identity=member, software="t", train_samples=40, test_samples=10)


STARTED: Told = (
    (0.0, facts.Began(run="wards")),
    (1.0, joined("a")),
    (1.0, joined("b")),
    (2.0, facts.EnrolmentClosed(members=("a", "b"), reason="all 2 listed members are present")),
    (2.0, opened(0)),
)
ONE_ROUND: Told = ((4.0, update("a", 0)), (5.0, update("b", 0)), (5.0, closed(0)), (6.0, opened(1)))


def write_run(folder: Path, told: Told, initial: Path = Path("/m")) -> Path:
    folder.mkdir(parents=True)
    fields = {
        "run": "wards",
        "folder": str(folder),
        "initial": str(initial),
        "rounds": 4,
        "algorithm": {"name": "fedavg"},
    }
    config = make_config({**fields, "members": {"names": ("a", "b")}})
    journal = SqliteJournal(folder / JOURNAL)
    journal.set_metadata("config", config.model_dump_json())
    journal.set_metadata("model", tiny_model().spec.to_metadata()[METADATA_KEY])
    journal.close()
    tell(folder, told)
    return folder


def tell(folder: Path, told: Told) -> None:
    journal = SqliteJournal(folder / JOURNAL)
    for time_s, fact in told:
        kind, body = fields_of(fact)
        journal.append([Draft(time_s=time_s, kind=kind, body=json.dumps(body).encode())])
    journal.close()


def test_each_refresh_reads_what_the_journal_has_gained(tmp_path: Path) -> None:
    follower = RunFollower(write_run(tmp_path / "run", STARTED))
    first = follower.refresh()
    tell(tmp_path / "run", [*ONE_ROUND, (7.0, update("a", 1, score(6)))])
    second = follower.refresh()
    assert [(one.round, one.ran_s, one.mean_accuracy) for one in (first, second)] == [(1, 2.0, None), (2, 7.0, 0.6)]
    assert [(one.name, one.round, one.doing) for one in second.members] == [("a", 2, "waiting"), ("b", 1, "training")]
    assert "waiting for b" in second.waits
    assert second.seconds_left == pytest.approx(3 * 3.0 - 2.0)  # a round took 3 s, and 2 have passed since it closed
    assert second.events[0].sentence == "round 1 closed: 2 updates"
    anew = RunFollower(tmp_path / "run").refresh()
    assert second == replace(anew, disk_free_bytes=second.disk_free_bytes)  # others write to this disk meanwhile


def test_a_journal_that_was_put_back_is_read_from_its_beginning(tmp_path: Path) -> None:
    old = write_run(tmp_path / "old", STARTED)
    follower = RunFollower(write_run(tmp_path / "run", [*STARTED, *ONE_ROUND]))
    assert follower.refresh().round == 2
    for path in (tmp_path / "run").glob("journal*"):
        path.unlink()
    shutil.copyfile(old / JOURNAL, tmp_path / "run" / JOURNAL)
    assert follower.refresh().round == 1


def test_a_folder_without_a_run_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Name the run's folder"):
        RunFollower(tmp_path).refresh()


def test_members_were_last_heard_from_when_the_pulse_or_their_report_says(tmp_path: Path) -> None:
    """a reported at 4 s and b at 5; the pulse of 10 s heard a at 9. It is not locked, so no time has passed since."""
    folder = write_run(tmp_path / "run", [*STARTED, *ONE_ROUND])
    config = make_config({"run": "wards", "folder": folder, "initial": "/m"})
    PulseFile(config).on_pulse(10.0, {"a": 9.0, "b": 1.0})
    assert [one.heard_s for one in RunFollower(folder).refresh().members] == [1.0, 5.0]


def test_a_jump_of_the_time_of_day_does_not_change_when_members_were_last_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pulse of 10 s heard a at 9 and b at 1; a day forwards or backwards later the same seconds have passed."""
    folder = write_run(tmp_path / "run", [*STARTED, *ONE_ROUND])
    config = make_config({"run": "wards", "folder": folder, "initial": "/m"})
    PulseFile(config).on_pulse(10.0, {"a": 9.0, "b": 1.0})
    noon = time.time()
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if is_locked(folder / "lock") is None:
            pytest.skip("this system does not list locks")
        for jump_s in (86_400.0, -86_400.0):
            monkeypatch.setattr(time, "time", lambda jump_s=jump_s: noon + jump_s)
            overview = RunFollower(folder).refresh()
            assert 10.0 <= overview.ran_s < 3_600.0
            assert [one.heard_s is not None and one.heard_s < 3_600.0 for one in overview.members] == [True, True]


def test_whether_a_coordinator_runs_is_known_from_its_lock_without_touching_it(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", STARTED)
    with (folder / "lock").open("w") as held:
        if is_locked(folder / "lock") is None:
            pytest.skip("this system does not list locks")
        assert RunFollower(folder).refresh().running is False
        fcntl.flock(held, fcntl.LOCK_EX)
        assert RunFollower(folder).refresh().running is True


def test_bytes_are_added_up_and_a_torn_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    line = json.dumps({"closed_round": 0, "bytes": [["a", 0, "in", 10], ["a", 0, "out", 3], ["b", 0, "in", 5]]}) + "\n"
    totals = TrafficCounts(tmp_path, key=lambda _closed, member, _round_no, way: (member, way))
    totals.read()
    path.write_text(line + line[:20])
    totals.read()
    assert totals.counted == {("a", "in"): 10, ("b", "in"): 5, ("a", "out"): 3}
    path.write_text(line + line)
    totals.read()
    assert totals.counted == {("a", "in"): 20, ("b", "in"): 10, ("a", "out"): 6}


@pytest.mark.parametrize("kind", facts.FACTS)
def test_every_fact_has_a_sentence(kind: str) -> None:
    """Of one line, without a full stop, and with the member's name where it is about one."""
    fact = _example(facts.FACTS[kind])
    sentence = sentence_of(fact)
    assert sentence
    assert not sentence.endswith(".")
    assert "\n" not in sentence
    assert getattr(fact, "member", "") in sentence


def _example(kind: type[facts.Fact]) -> facts.Fact:
    values: dict[str, object] = {"str": "x1", "int": 3, "float": 1.5, "bool": True, "str | None": "x1"}
    values |= {"int | None": 3, "float | None": 1.5}
    names = kind.__dataclass_fields__
    made: facts.Fact = kind(**{name: values.get(str(field.type), ()) for name, field in names.items()})  # type: ignore[arg-type]
    return made
