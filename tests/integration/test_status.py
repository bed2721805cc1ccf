"""What `status` and `replay` say of a run in which nobody waits for the others: the range of rounds, every member's
last score, and which model it belongs to. A coordinator at work, real sockets."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from coordinator.cli import main
from coordinator.decisions import facts
from coordinator.evaluations import LastScore, evaluation_line
from coordinator.observers.log_lines import event_of, shown_round
from coordinator.record import snapshots
from coordinator.runs import read_run
from coordinator.summaries import history_lines, status_lines
from fedap_core.arrays import Float32Array
from protocol.messages import Score
from tests.support.cohorts import run_command, wait_until
from tests.support.federation import MEMBERS, WAIT_S, RunningCoordinator, fields, running
from tests.support.peer import ThreadedPeer
from tests.support.processes import ServeProcess, config_file
from tests.support.tiny_models import drift, moments, tiny_model, wire_moments


def score(correct: int) -> Score:
    return Score(model="delivered", split="test", samples=100, correct=correct, loss=0.5, macro_f1=0.5)


def test_members_of_a_continuous_run_are_all_counted_with_their_last_score(tmp_path: Path) -> None:
    """a and b are held in their third round, c in its second. In a report of round r (from 0) everybody scores
    10 r + 30 of 100 with the model delivered for it, which is the result of the round before: 40 after round 1 for a
    and b, and 30 with the initial model for c, (40 + 40 + 30) / 300 = 0.3667."""
    model, held = tiny_model(), threading.Event()
    coordinator = RunningCoordinator(
        fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), mode="continuous")
    )

    def work(name: str, round_no: int, weights: Float32Array) -> Float32Array:
        if round_no == (1 if name == "c" else 2):
            assert held.wait(WAIT_S)
        return drift(name, round_no, weights)

    peers = [
        ThreadedPeer(
            coordinator.federation.endpoint,
            model.hello(name),
            work=lambda round_no, weights, name=name: work(name, round_no, weights),  # type: ignore[misc]
            moments=wire_moments(moments(name)),
            scores=lambda round_no: (score(30 + 10 * round_no),),
        )
        for name in MEMBERS
    ]

    def status() -> list[str]:
        past = read_run(tmp_path / "run")
        try:
            return list(status_lines(past))
        finally:
            past.journal.close()

    with running(peers):
        wait_until(lambda: _updates(status()) == ["2", "2", "1"], "everybody to be held", deadline_s=WAIT_S)
        shown = status()
        held.set()
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        coordinator.join()
    assert "training in rounds 2 to 3, 5 of 9 updates" in shown[0]
    assert shown[-1] == (
        "Last evaluation: rounds 0 to 1, mean test accuracy of the delivered model 0.3667 over 3 members."
    )
    past = read_run(tmp_path / "run")
    told = "\n".join(history_lines(past))
    past.journal.close()
    assert "round=3" in told
    assert "round=0" not in told
    assert "test accuracy of the delivered model 0.4000" in told


def test_a_finished_run_says_for_whom_it_waits_and_ends_when_that_member_is_back(tmp_path: Path) -> None:
    """c is killed in the first round, the others train on without it; a minute is left for it to return."""
    model, endpoint = tiny_model(), f"ipc://{tmp_path}/socket"
    pace = {"heartbeat_s": 0.2, "dead_after_s": 1.0, "linger_s": 60.0}
    chosen = fields(
        tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg", pace=pace,
        network={"endpoint": endpoint},
    )  # fmt: skip
    process = ServeProcess("serve", "--config", str(config_file(tmp_path / "run.toml", chosen)), log=tmp_path / "log")
    process.ready()
    gone, held = threading.Event(), threading.Event()

    def work(round_no: int, weights: Float32Array) -> Float32Array:
        gone.set()
        assert held.wait(WAIT_S)
        return drift("c", round_no, weights)

    a, b, c = (ThreadedPeer(endpoint, model.hello(name), work=partial(drift, name)) for name in MEMBERS)
    c.work = work
    back = ThreadedPeer(endpoint, c.hello, work=partial(drift, "c"))
    try:
        with running([a, b, c]):
            assert gone.wait(WAIT_S)
            held.set()
            c.stop()
            assert a.ended.wait(WAIT_S)
            assert b.ended.wait(WAIT_S)
        shown = run_command(main, "status", str(tmp_path / "run")).out
        assert "Waiting: for c (absent) to fetch the last model, for at most another " in shown
        wait_until(lambda: "run.lingers" in (tmp_path / "log").read_text(), "the log to say so", deadline_s=WAIT_S)
        with running([back]):
            assert process.wait() == 0
    finally:
        process.close()
    assert "Waiting" not in run_command(main, "status", str(tmp_path / "run")).out


def _updates(lines: list[str]) -> list[str]:
    rows = {line.split()[0]: line.split() for line in lines}
    return [rows[name][-2] if name in rows else "" for name in MEMBERS]


def test_rounds_before_the_first_are_the_initial_model() -> None:
    found = {"a": LastScore(round_no=-1, model="delivered", accuracy=0.25)}
    assert evaluation_line(found) == (
        "Last evaluation: before round 1, mean test accuracy of the delivered model 0.2500 over 1 member."
    )


@pytest.mark.parametrize(("code", "event"), [("unknown-key", "member.removed"), ("quarantined", "member.excluded")])
def test_member_taken_off_the_list_is_removed_and_not_quarantined(code: str, event: str) -> None:
    assert event_of(facts.Quarantined(member="a", code=code, reason="r")) == event


def test_rounds_that_people_read_count_from_one_and_the_end_names_those_that_were_trained() -> None:
    assert shown_round(facts.RoundClosed(round_no=0, reason="all", reported=("a",), missing=()), 0) == 1
    assert shown_round(facts.GoodbyeAccepted(member="a", round_no=2, scores=()), 2) == 2


def test_the_status_of_a_long_run_is_read_from_its_latest_snapshot(tmp_path: Path) -> None:
    """A fact from before the snapshot that nobody can read is not missed; all facts of a long run take minutes."""
    model, rounds = tiny_model(), snapshots.EVERY_ROUNDS + 1
    settings = fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg", rounds=rounds)
    coordinator = RunningCoordinator(settings)
    peers = [
        ThreadedPeer(
            coordinator.federation.endpoint,
            model.hello(name),
            work=lambda _round_no, weights: weights,
            scores=lambda _round_no: (score(50),),
        )
        for name in MEMBERS
    ]
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    with closing(sqlite3.connect(tmp_path / "run" / "journal.sqlite")) as db, db:
        db.execute("update entries set body = x'7b7d' where serial = 3")
    found = run_command(main, "status", str(tmp_path / "run"))
    assert found.code == 0, found.complaint
    assert f"all {rounds} rounds are done" in found.out
