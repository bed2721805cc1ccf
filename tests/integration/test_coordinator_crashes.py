"""Claims about killed coordinators: SIGKILL at any moment, start again, and the run ends with the same models."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from coordinator.decisions.facts import Lost, UpdateAccepted
from fedap_core.arrays import Float32Array
from protocol.limits import SLICE_BYTES
from tests.support.cohorts import BOTH_SIZES
from tests.support.federation import MEMBERS, WAIT_S, expected_rows, fields, require_rows, running
from tests.support.peer import ThreadedPeer
from tests.support.processes import ServeProcess, config_file
from tests.support.run_files import told_facts
from tests.support.tiny_models import TinyModel, drift, moments, tiny_model, wire_moments

BODIES = {"whole": 1000, "in slices": 5 * SLICE_BYTES // 8}
"""How a model travels -> the values of its body: in slices, two and a half of them."""


def model_of(travels: str) -> TinyModel:
    return tiny_model(body=BODIES[travels])


def peers_of(
    model: TinyModel, endpoint: str, work: Callable[[str, int, Float32Array], Float32Array] = drift
) -> list[ThreadedPeer]:
    return [
        ThreadedPeer(
            endpoint,
            model.hello(name),
            work=partial(work, name),
            moments=wire_moments(moments(name)),
        )
        for name in MEMBERS
    ]


def settings(
    tmp_path: Path,
    model: TinyModel,
    algorithm: str,
    *,
    dead_after_s: float = 20.0,
    training: dict[str, object] | None = None,
) -> Path:
    """An ipc endpoint: the same address after a restart, and no port to race for."""
    chosen = fields(
        tmp_path / "run",
        model.write(tmp_path / "initial.safetensors"),
        algorithm=algorithm,
        network={"endpoint": f"ipc://{tmp_path}/socket"},
        pace={"heartbeat_s": 0.2, "dead_after_s": dead_after_s, "linger_s": 10.0},
        training=training or {},
    )
    return config_file(tmp_path / "run.toml", chosen)


def check_ended_alike(peers: list[ThreadedPeer], model: TinyModel, algorithm: str) -> None:
    require_rows(peers, expected_rows(model, algorithm, rounds=3))
    for peer in peers:
        assert peer.log.trained == [0, 1, 2]


def killed_in_a_round(model: TinyModel, config: Path, *restarted: str) -> list[ThreadedPeer]:
    """Members of a run whose coordinator is killed while b still trains round 1 and the others have reported, and
    started again with these options."""
    log = config.parent / "log"
    reached, killed = threading.Event(), threading.Event()

    def work(name: str, round_no: int, weights: Float32Array) -> Float32Array:
        if (name, round_no) == ("b", 1):
            reached.set()
            killed.wait(WAIT_S)
        return drift(name, round_no, weights)

    first = ServeProcess("serve", "--config", str(config), log=log)
    peers = peers_of(model, first.ready(), work)
    with running(peers):
        assert reached.wait(WAIT_S)
        first.kill()
        killed.set()
        second = ServeProcess("serve", "--config", str(config), *restarted, log=log)
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert second.wait() == 0
    return peers


@pytest.mark.parametrize("travels", BODIES)
def test_a_coordinator_killed_in_a_round_continues_after_a_restart(tmp_path: Path, travels: str) -> None:
    """Killed while one member still trains round 1 and the others have reported; nobody trains a round twice."""
    model, config = model_of(travels), settings(tmp_path, model_of(travels), "fedap")
    peers = killed_in_a_round(model, config)
    check_ended_alike(peers, model, "fedap")


def test_what_is_known_of_directions_survives_a_kill(tmp_path: Path) -> None:
    """c pulls against the others from the first round on. Killed in the second, the coordinator goes on withholding it
    as much as one that was not killed."""
    ends = [_rows_beside_one_who_pulls_back(tmp_path / name, kill=name == "killed") for name in ("quiet", "killed")]
    assert ends[0] == ends[1]
    quiet, killed = (_directions(tmp_path / name / "run") for name in ("quiet", "killed"))
    assert quiet == killed
    assert all(quiet.values())


def _directions(folder: Path) -> dict[tuple[str, int], str]:
    told = (fact for fact in told_facts(folder) if isinstance(fact, UpdateAccepted))
    return {(fact.member, fact.round_no): fact.direction for fact in told}


def _rows_beside_one_who_pulls_back(folder: Path, *, kill: bool) -> list[bytes]:
    folder.mkdir()
    reached, goes_on = threading.Event(), threading.Event()

    def work(name: str, round_no: int, weights: Float32Array) -> Float32Array:
        if (name, round_no) == ("b", 1):
            reached.set()
            goes_on.wait(WAIT_S)
        step = np.random.default_rng(round_no).standard_normal(weights.size).astype(np.float32) * np.float32(0.01)
        return weights - step if name == "c" else weights + step

    model = tiny_model()
    config = settings(folder, model, "fedavg")
    config.write_text(config.read_text().replace('robust = "none"', 'robust = "limit"'))
    life = ServeProcess("serve", "--config", str(config), log=folder / "log")
    peers = peers_of(model, life.ready(), work)
    with running(peers):
        assert reached.wait(WAIT_S)
        assert "members.doubted" in (folder / "log").read_text()
        if kill:
            life.kill()
            life = ServeProcess("serve", "--config", str(config), log=folder / "log")
        goes_on.set()
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert life.wait() == 0
    return [peer.log.final.tobytes() for peer in peers if peer.log.final is not None]


def test_run_started_again_with_more_rounds_trains_them(tmp_path: Path) -> None:
    """Killed in its second round of three, started again for four; afterwards it has ended, and can go no further."""
    model, config = tiny_model(), settings(tmp_path, tiny_model(), "fedap", training={"lr_schedule": "constant"})
    peers = killed_in_a_round(model, config, "--rounds", "4")
    require_rows(peers, expected_rows(model, "fedap", rounds=4))
    assert [peer.log.trained for peer in peers] == [[0, 1, 2, 3]] * 3
    third = ServeProcess("serve", "--config", str(config), "--rounds", "5", log=tmp_path / "log")
    assert third.wait() == 2
    assert "rounds: got 5, expected 4, with which this run began: it has ended" in (tmp_path / "log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("travels", BODIES)
@pytest.mark.parametrize("algorithm", ["fedap", "f-fedap"])
@pytest.mark.parametrize(("when", "number"), [("after", 1), ("before", 2)])
def test_killed_beside_every_commit_a_run_ends_with_the_same_models(
    tmp_path: Path, algorithm: str, when: str, number: int, travels: str
) -> None:
    """Every life makes one commit and dies: right after it, or at the next, when all that follows the first is done.
    So each commit of the run is the last of some life. A life that finds the run over ends by itself; whoever waits
    for the receipt of its goodbye then waits in vain, and has its model all the same."""
    model, config = model_of(travels), settings(tmp_path, model_of(travels), algorithm)
    peers = peers_of(model, f"ipc://{tmp_path}/socket")
    lives = 0
    with running(peers):
        while True:
            life = ServeProcess(
                str(config), when, str(number), module="tests.support.mortal_coordinator", log=tmp_path / "log"
            )
            lives += 1
            code = life.wait()
            assert code in (0, -signal.SIGKILL), (tmp_path / "log").read_text()[-3000:]
            if code == 0 or lives > 100:
                break
    check_ended_alike(peers, model, algorithm)
    assert lives > 8


@pytest.mark.parametrize("travels", BOTH_SIZES)
def test_sigterm_finishes_the_round_informs_all_members_and_exits_with_0(tmp_path: Path, travels: str) -> None:
    """Asked while round 1 is trained: its mix is delivered, nobody is asked for round 2."""
    model, config = model_of(travels), settings(tmp_path, model_of(travels), "fedavg")
    reached, asked = threading.Event(), threading.Event()

    def work(name: str, round_no: int, weights: Float32Array) -> Float32Array:
        if (name, round_no) == ("b", 1):
            reached.set()
            asked.wait(WAIT_S)
        return drift(name, round_no, weights)

    process = ServeProcess("serve", "--config", str(config), log=tmp_path / "log")
    peers = peers_of(model, process.ready(), work)
    with running(peers):
        assert reached.wait(WAIT_S)
        process.terminate()
        asked.set()
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert process.wait() == 0
    require_rows(peers, expected_rows(model, "fedavg", rounds=2))
    for peer in peers:
        assert (peer.log.finish_reason, peer.log.trained) == ("requested", [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("travels", BODIES)
def test_a_coordinator_that_was_stopped_for_long_considers_nobody_silent(tmp_path: Path, travels: str) -> None:
    """SIGSTOP while b and c train, for twice the time after which a member is taken for dead; they report meanwhile."""
    model, config = model_of(travels), settings(tmp_path, model_of(travels), "fedavg", dead_after_s=2.0)
    reached, stopped = threading.Semaphore(0), threading.Event()

    def work(name: str, round_no: int, weights: Float32Array) -> Float32Array:
        if name != "a" and round_no == 1:
            reached.release()
            stopped.wait(WAIT_S)
        return drift(name, round_no, weights)

    process = ServeProcess("serve", "--config", str(config), log=tmp_path / "log")
    peers = peers_of(model, process.ready(), work)
    with running(peers):
        assert all(reached.acquire(timeout=WAIT_S) for name in MEMBERS if name != "a")
        process.child.send_signal(signal.SIGSTOP)
        stopped.set()
        assert not any(peer.ended.wait(1.0) for peer in [*peers, *peers][:4])
        process.child.send_signal(signal.SIGCONT)
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert process.wait() == 0
    check_ended_alike(peers, model, "fedavg")
    told = told_facts(tmp_path / "run")
    assert not [fact for fact in told if isinstance(fact, Lost)]
    assert "coordinator.held_up" in (tmp_path / "log").read_text()
