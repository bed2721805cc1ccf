"""Claims about runs of hundreds of members: a round's work grows with them, not with their square, and nothing that
people read grows into thousands of lines. Work is counted in calls, not timed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from coordinator.config import make_config
from coordinator.decisions import events
from coordinator.decisions.actions import Persist
from coordinator.record.journal import Ledger
from coordinator.runs import open_run, read_run
from coordinator.summaries import history_lines, status_lines
from protocol.messages import Step
from tests.support.federation import fields
from tests.support.machines import Bench, open_members, rules_for
from tests.support.tiny_models import tiny_model


class Calls:
    """Counts calls of Python functions inside the block."""

    def __enter__(self) -> Calls:
        self.counted = 0
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, _frame: FrameType, event: str, _argument: object) -> None:
        self.counted += event == "call"


def started(members: int) -> tuple[Bench, list[str]]:
    """A round is open; the bench checks no laws, which would look at every member itself."""
    bench = Bench(rules_for("fedavg", rounds=3, members=open_members(members)))
    names = [f"m{number:04d}" for number in range(members)]
    bench.machine.check_invariants = lambda: None  # type: ignore[method-assign]
    bench.join(*names)
    return bench, names


def round_calls(members: int) -> int:
    bench, names = started(members)
    bench.updates(0, *names)
    with Calls() as calls:
        bench.updates(1, *names)
    assert bench.machine.state.round_no == 2
    return calls.counted


def test_a_round_of_ten_times_the_members_costs_ten_times_the_calls() -> None:
    """A fixed part makes the smaller one a little dearer per member; a square would make the larger ten times so."""
    assert round_calls(200) < 10 * round_calls(20)


def test_strangers_who_enter_an_open_run_cost_no_look_at_all_members_each() -> None:
    """Ten times the newcomers during the enrolment window: ten times the calls, and the run begins when it is over."""

    def calls_of(members: int) -> int:
        bench = Bench(rules_for("fedavg", members=open_members(2, enrolment_s=60.0)))
        bench.machine.check_invariants = lambda: None  # type: ignore[method-assign]
        bench.join("a", "b")
        with Calls() as calls:
            bench.join(*(f"m{number:04d}" for number in range(members)))
        assert bench.stage == "enrolling"
        names = tuple(bench.machine.state.members)
        for at in range(0, 60, 4):
            bench.keep_alive(*names, at=float(at))
        bench.run_until(60.0)
        assert bench.machine.state.round_members == names
        return calls.counted

    assert calls_of(200) < 12 * calls_of(20)


def test_heartbeats_of_ten_times_the_members_cost_ten_times_the_calls() -> None:
    def calls_of(members: int) -> int:
        bench, names = started(members)
        have, want = Step(kind="train", round_no=0), Step(kind="train", round_no=1)
        with Calls() as calls:
            for name in names:
                bench.now += 0.4 / members
                bench.beat(name, have=have, want=want)
            bench.run_until(bench.now + 2.0)
        return calls.counted

    assert calls_of(200) < 11 * calls_of(20)


def test_what_people_read_of_a_thousand_members_fits_a_screen(tmp_path: Path) -> None:
    model = tiny_model()
    config = fields(
        tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg",
        members={"at_least": 1000, "enrolment_s": 0.0}, network={"endpoint": f"ipc://{tmp_path}/socket"},
    )  # fmt: skip
    federation = open_run(make_config(config))
    parts = federation.coordinator._parts
    ledger = Ledger(parts.journal, traffic=dict, traffic_file=None)
    received: list[events.Event] = [events.Started()]
    for number in range(1000):
        name = f"m{number:04d}"
        received.append(events.HelloArrived(connection=name, identity=name, hello=model.hello(name)))
    received.append(events.LeaveArrived(connection="m0500", reason="enough"))
    for event in received:
        for action in parts.machine.handle(event, 1.0):
            if isinstance(action, Persist):
                ledger.add(action.fact, 1.0)
    ledger.commit(parts.machine.state)
    parts.router.close(linger_s=0)
    parts.journal.close()
    parts.release()
    past = read_run(tmp_path / "run")
    shown = list(status_lines(past))
    assert len(shown) < 50
    assert shown[3].startswith("m0500")
    assert "and 960 more present" in shown
    assert max(len(line) for line in history_lines(past)) < 500
    past.journal.close()


def test_judging_is_not_urgent_while_others_are_awaited_and_urgent_with_the_last() -> None:
    """Of three, two have reported, one of them judged: one is awaited. With the third, and without barriers, none."""
    bench = Bench(rules_for("fedavg", members=open_members(3)))
    bench.join("a", "b", "c")
    assert bench.machine.awaited(bench.now) == 3
    bench.update("a", 0)
    bench.auto = False
    bench.update("b", 0)
    assert bench.machine.awaited(bench.now) == 1
    bench.update("c", 0)
    assert bench.machine.awaited(bench.now) == 0
    free = Bench(rules_for("fedavg", members=open_members(2), continuous=True))
    free.join("a", "b")
    assert free.machine.awaited(free.now) == 0
