"""Claims about the list of members while a run goes on: a key taken off it is cut off, a key added can join, a stranger
is never even read. No restart in any of them: a coordinator's process, real sockets, real CURVE handshakes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zmq

from coordinator.decisions import facts
from coordinator.runs import read_run
from coordinator.summaries import status_lines
from fedap_core.aggregation import mix
from fedap_core.arrays import Float32Array
from protocol.host.keys import generate_keys, write_key_file
from protocol.keys import KeyPair
from tests.support.cohorts import wait_until
from tests.support.federation import WAIT_S, fields, running
from tests.support.peer import ThreadedPeer
from tests.support.processes import ServeProcess, config_file
from tests.support.run_files import told_facts
from tests.support.tiny_models import TinyModel, drift, tiny_model


@dataclass
class Keyed:
    """A coordinator's process that knows its members by key."""

    folder: Path
    model: TinyModel
    pairs: dict[str, KeyPair]
    process: ServeProcess
    endpoint: str

    def peer(self, name: str, work: Callable[[int, Float32Array], Float32Array] | None = None) -> ThreadedPeer:
        pair = self.pairs[name]
        plain = work or (lambda round_no, weights: drift(name, round_no, weights))
        keys = (self.pairs["server"].public, pair.public, pair.secret)
        return ThreadedPeer(self.endpoint, self.model.hello(name), work=plain, keys=keys)

    def list_members(self, *names: str) -> None:
        list_members(self.folder, self.pairs, names)

    def told(self, kind: type[facts.Fact]) -> list[facts.Fact]:
        return [fact for fact in told_facts(self.folder / "run") if isinstance(fact, kind)]

    def status(self) -> str:
        return "\n".join(status_lines(read_run(self.folder / "run")))

    def standing(self, name: str) -> str:
        """What `status` says of one member."""
        (line,) = [line for line in self.status().splitlines() if line.startswith(f"{name} ")]
        return line.split()[1]

    def log(self) -> list[dict[str, object]]:
        lines = (self.folder / "log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


def list_members(folder: Path, pairs: dict[str, KeyPair], names: tuple[str, ...]) -> None:
    """Replace the list at once, as an editor does."""
    text = "".join(f"{name} {pairs[name].public}\n" for name in names)
    (folder / "members.new").write_text(text)
    (folder / "members.new").replace(folder / "members")


@contextmanager
def keyed_run(folder: Path, *names: str, rounds: int, **more: object) -> Iterator[Keyed]:
    model = tiny_model()
    pairs = {name: generate_keys() for name in ("a", "b", "c", "d", "stranger", "server")}
    write_key_file(folder / "c.key", pairs["server"])
    list_members(folder, pairs, names)
    chosen = fields(folder / "run", model.write(folder / "i.safetensors"), algorithm="fedavg", rounds=rounds, **more)
    chosen |= {
        "members": {"keys": str(folder / "members"), "at_least": len(names)},
        "network": {"secret_key": str(folder / "c.key")},
    }
    process = ServeProcess("serve", "--config", str(config_file(folder / "run.toml", chosen)), log=folder / "log")
    try:
        yield Keyed(folder=folder, model=model, pairs=pairs, process=process, endpoint=process.ready())
    finally:
        process.close()


def test_a_key_taken_off_the_list_is_cut_off_and_the_run_continues_without_it(tmp_path: Path) -> None:
    """c is at work in round 1 when its key goes. Round 0 mixes a, b and c in equal parts; all later ones a and b."""
    reached, gone = threading.Event(), threading.Event()

    def work(round_no: int, weights: Float32Array) -> Float32Array:
        if round_no == 1:
            reached.set()
            gone.wait(WAIT_S)
        return drift("c", round_no, weights)

    with keyed_run(tmp_path, "a", "b", "c", rounds=4) as run:
        staying, leaving = [run.peer("a"), run.peer("b")], run.peer("c", work)
        with running([*staying, leaving]):
            assert reached.wait(WAIT_S)
            run.list_members("a", "b")
            wait_until(lambda: bool(run.told(facts.Quarantined)), "the member to be cut off", deadline_s=WAIT_S)
            gone.set()
            assert all(peer.ended.wait(WAIT_S) for peer in [*staying, leaving])
            assert run.process.wait() == 0
        again = ServeProcess("serve", "--config", str(tmp_path / "run.toml"), log=tmp_path / "log")
        assert again.wait() == 0, "two of three at least: a list shortened during the run must not stop a restart"
    (cut,) = run.told(facts.Quarantined)
    assert isinstance(cut, facts.Quarantined)
    assert (cut.member, cut.code) == ("c", "unknown-key")
    assert leaving.log.rejected is not None
    assert leaving.log.rejected.code == "unknown-key"
    rows = [run.model.shared(()).copy() for _ in "abc"]
    for round_no, names in enumerate(["abc", "ab", "ab", "ab"]):
        rows = [drift(name, round_no, row) for name, row in zip(names, rows, strict=False)]
        mix(np.full((len(rows), len(rows)), 1 / len(rows)), rows, rows)
    assert [np.asarray(peer.log.final).tobytes() for peer in staying] == [row.tobytes() for row in rows]


def test_a_key_added_to_the_list_can_join_the_run_under_way(tmp_path: Path) -> None:
    """Before its line is there its handshakes are refused; a stays in round 1 until d is welcome."""
    reached, joined = threading.Event(), threading.Event()

    def work(round_no: int, weights: Float32Array) -> Float32Array:
        if round_no == 1:
            reached.set()
            joined.wait(WAIT_S)
        return drift("a", round_no, weights)

    with keyed_run(tmp_path, "a", "b", rounds=4) as run:
        early, too_soon, late = [run.peer("a", work), run.peer("b")], run.peer("d"), run.peer("d")
        with running([*early, too_soon]):
            assert reached.wait(WAIT_S)
            refused = "a handshake to be refused"
            wait_until(lambda: any(line["event"] == "key.refused" for line in run.log()), refused, deadline_s=WAIT_S)
            assert too_soon.log.welcomes == 0
            too_soon.stop()
            run.list_members("a", "b", "d")
            with running([late]):
                wait_until(lambda: late.log.welcomes > 0, "the newcomer to be welcome", deadline_s=WAIT_S)
                joined.set()
                assert all(peer.ended.wait(WAIT_S) for peer in [*early, late])
                assert run.process.wait() == 0
    assert (late.log.trained, late.log.finish_reason) == ([2, 3], "rounds")
    assert all(peer.log.trained == [0, 1, 2, 3] for peer in early)


def test_not_a_message_is_read_of_a_stranger_with_another_key_or_none(tmp_path: Path) -> None:
    """Garbage that is read is counted by its code when the coordinator ends; here there is nothing to count."""
    with keyed_run(tmp_path, "a", "b", rounds=2) as run:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        plain, other = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
        pair = run.pairs["stranger"]
        other.curve_serverkey = run.pairs["server"].public.encode()
        other.curve_publickey, other.curve_secretkey = pair.public.encode(), pair.secret.encode()
        for socket in (plain, other):
            socket.linger = 0
            socket.connect(run.endpoint)
            for _ in range(100):
                socket.send(b"garbage", zmq.NOBLOCK)
        wait_until(lambda: any(line["event"] == "key.refused" for line in run.log()), "a refusal", deadline_s=WAIT_S)
        peers = [run.peer("a"), run.peer("b")]
        with running(peers):
            assert all(peer.ended.wait(WAIT_S) for peer in peers)
            assert run.process.wait() == 0
        assert not plain.poll(0)
        assert not other.poll(0)
        for socket in (plain, other):
            socket.close()
        context.term()
    (ended,) = [line for line in run.log() if line["event"] == "coordinator.ended"]
    assert not {"bad-header", "bad-frames", "unknown-key", "rate"} & set(ended)
    shown = [line["key"] for line in run.log() if line["event"] == "key.refused"]
    assert set(shown) == {pair.public}


PATIENT = {"heartbeat_s": 0.5, "dead_after_s": 60.0, "linger_s": 5.0}
"""Members that a test holds back say nothing meanwhile, and are not to be lost for it."""


class HeldMember:
    """Holds a member back in a round."""

    def __init__(self, name: str, *, round_no: int = 1) -> None:
        self.name, self.round_no = name, round_no
        self.reached, self.opened = threading.Event(), threading.Event()

    def work(self, round_no: int, weights: Float32Array) -> Float32Array:
        if round_no == self.round_no:
            self.reached.set()
            self.opened.wait(WAIT_S)
        return drift(self.name, round_no, weights)


def test_a_list_that_cannot_be_used_is_reported_and_the_one_before_stays_in_force(tmp_path: Path) -> None:
    """With a wrong line, with no member in it, and gone; b begins again while it is gone."""
    path, gate = tmp_path / "members", HeldMember("a")
    with keyed_run(tmp_path, "a", "b", rounds=3, pace=PATIENT) as run:
        a, b, stranger = run.peer("a", gate.work), run.peer("b"), run.peer("d")
        with running([a, b]):
            assert gate.reached.wait(WAIT_S)
            good = path.read_text()
            edits: dict[str, Callable[[], object]] = {
                "members line 2": lambda: path.write_text(f"a {run.pairs['a'].public}\nb not-a-key\n"),
                "no line «name key»": lambda: path.write_text("# nobody\n"),
                "No such file": path.unlink,
            }
            for said, edit in edits.items():
                edit()
                wait_until(partial(attention, run, said), f"«{said}» in status", deadline_s=WAIT_S)
            b.stop()
            again = run.peer("b")
            with running([again, stranger]):
                wait_until(lambda: again.log.welcomes > 0, "b to be welcome", deadline_s=WAIT_S)
                refused = [run.pairs["d"].public]
                wait_until(lambda: keys_refused(run) == refused, "d to be refused", deadline_s=WAIT_S)
                path.write_text(good)
                wait_until(lambda: "ATTENTION" not in run.status(), "the end of it", deadline_s=WAIT_S)
                gate.opened.set()
                assert all(peer.ended.wait(WAIT_S) for peer in (a, again))
                assert run.process.wait() == 0
        assert (a.log.trained, a.log.finish_reason, again.log.finish_reason) == ([0, 1, 2], "rounds", "rounds")
        assert not run.told(facts.Quarantined)
        events = [line["event"] for line in run.log()]
        assert events.count("members_file.problem") == len(edits)
        assert events.count("members_file.solved") == 1


def attention(run: Keyed, said: str) -> bool:
    lines = [line for line in run.status().splitlines() if line.startswith("ATTENTION")]
    return len(lines) == 1 and said in lines[0] and "the previous list stays in effect" in lines[0]


def keys_refused(run: Keyed) -> list[str]:
    return sorted({str(line["key"]) for line in run.log() if line["event"] == "key.refused"})


@pytest.mark.parametrize("key", ["its old key", "a new key"])
def test_a_member_taken_off_the_list_is_shown_as_removed_and_comes_back_when_listed_again(
    tmp_path: Path, key: str
) -> None:
    gate = HeldMember("a")
    with keyed_run(tmp_path, "a", "b", "c", rounds=4, pace=PATIENT) as run:
        staying, leaving = [run.peer("a", gate.work), run.peer("b")], run.peer("c")
        with running([*staying, leaving]):
            assert gate.reached.wait(WAIT_S)
            run.list_members("a", "b")
            wait_until(lambda: run.standing("c") == "removed", "c to be removed", deadline_s=WAIT_S)
            assert leaving.ended.wait(WAIT_S)
            if key == "a new key":
                run.pairs["c"] = generate_keys()
            run.list_members("a", "b", "c")
            back = run.peer("c")
            with running([back]):
                wait_until(lambda: run.standing("c") == "present", "c to be back", deadline_s=WAIT_S)
                gate.opened.set()
                assert all(peer.ended.wait(WAIT_S) for peer in [*staying, back])
                assert run.process.wait() == 0
    assert (back.log.trained, back.log.finish_reason) == ([2, 3], "rounds")
    assert [peer.log.trained for peer in staying] == [[0, 1, 2, 3]] * 2


def test_an_excluded_member_stays_out_with_any_key_and_may_come_under_another_name(tmp_path: Path) -> None:
    """c sends NaN three times. Neither being listed again nor a new key readmits it; as d it is a newcomer."""
    gate = HeldMember("a", round_no=3)
    with keyed_run(tmp_path, "a", "b", "c", rounds=6, pace=PATIENT) as run:
        staying = [run.peer("a", gate.work), run.peer("b")]
        offender = run.peer("c", lambda _round_no, weights: np.full_like(weights, np.nan))
        with running([*staying, offender]):
            assert gate.reached.wait(WAIT_S)
            assert offender.ended.wait(WAIT_S)
            assert run.standing("c") == "excluded"
            run.list_members("a", "b")
            wait_until(lambda: run.told(facts.AllowListSet)[-1:] == [listed(run, "a", "b")], "c to be unlisted")
            run.pairs["c"] = generate_keys()
            run.list_members("a", "b", "c", "d")
            mended, renamed = run.peer("c"), run.peer("d")
            with running([mended, renamed]):
                assert mended.ended.wait(WAIT_S)
                wait_until(lambda: renamed.log.welcomes > 0, "d to be welcome", deadline_s=WAIT_S)
                gate.opened.set()
                assert all(peer.ended.wait(WAIT_S) for peer in [*staying, renamed])
                assert run.process.wait() == 0
    assert mended.log.rejected is not None
    assert mended.log.rejected.code == "quarantined"
    assert (renamed.log.trained[-1], renamed.log.finish_reason) == (5, "rounds")


def listed(run: Keyed, *names: str) -> facts.AllowListSet:
    return facts.AllowListSet(allowed=tuple(sorted((run.pairs[name].public, name) for name in names)))


def test_a_new_key_on_a_members_line_cuts_off_the_old_one_and_lets_the_new_one_in(tmp_path: Path) -> None:
    gate = HeldMember("a")
    with keyed_run(tmp_path, "a", "b", rounds=4, pace=PATIENT) as run:
        staying, old = run.peer("a", gate.work), run.peer("b")
        with running([staying, old]):
            assert gate.reached.wait(WAIT_S)
            run.pairs["b"] = generate_keys()
            new = run.peer("b")
            run.list_members("a", "b")
            with running([new]):
                wait_until(lambda: new.log.welcomes > 0, "b to be welcome with its new key", deadline_s=WAIT_S)
                assert old.ended.wait(WAIT_S)
                gate.opened.set()
                assert all(peer.ended.wait(WAIT_S) for peer in (staying, new))
                assert run.process.wait() == 0
    assert old.log.rejected is not None
    assert old.log.rejected.code == "unknown-key"
    assert (new.log.trained[-1], new.log.finish_reason) == (3, "rounds")


def test_a_list_without_any_of_the_members_cuts_them_off_and_the_run_waits_until_they_are_listed_again(
    tmp_path: Path,
) -> None:
    """As with the list of another run, put in place by mistake."""
    gate = HeldMember("a")
    with keyed_run(tmp_path, "a", "b", rounds=4, pace=PATIENT) as run:
        before = [run.peer("a", gate.work), run.peer("b")]
        with running(before):
            assert gate.reached.wait(WAIT_S)
            run.list_members("c", "d")
            wait_until(lambda: run.standing("a") == run.standing("b") == "removed", "both to be removed")
            gate.opened.set()
            assert all(peer.ended.wait(WAIT_S) for peer in before)
            run.list_members("a", "b", "c", "d")
            after = [run.peer("a"), run.peer("b")]
            with running(after):
                assert all(peer.ended.wait(WAIT_S) for peer in after)
                assert run.process.wait() == 0
    assert [peer.log.finish_reason for peer in after] == ["rounds", "rounds"]


def test_new_keys_for_all_members_at_once_do_not_end_the_run(tmp_path: Path) -> None:
    gate = HeldMember("a")
    with keyed_run(tmp_path, "a", "b", rounds=4, pace=PATIENT) as run:
        old = [run.peer("a", gate.work), run.peer("b")]
        with running(old):
            assert gate.reached.wait(WAIT_S)
            run.pairs |= {name: generate_keys() for name in ("a", "b")}
            run.list_members("a", "b")
            assert old[1].ended.wait(WAIT_S)
            gate.opened.set()
            new = [run.peer("a"), run.peer("b")]
            with running(new):
                assert all(peer.ended.wait(WAIT_S) for peer in new)
                assert run.process.wait() == 0
    assert [peer.log.finish_reason for peer in new] == ["rounds"] * 2


def test_a_coordinator_does_not_start_with_a_list_that_cannot_be_used(tmp_path: Path) -> None:
    with keyed_run(tmp_path, "a", "b", rounds=2) as run:
        run.process.kill()
        (tmp_path / "members").write_text("a\n")
        log = tmp_path / "again.log"
        assert ServeProcess("serve", "--config", str(tmp_path / "run.toml"), log=log).wait() == 2
    (line,) = log.read_text().splitlines()
    assert "members line 1" in line
