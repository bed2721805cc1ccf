"""Claims about members that offend again and again: each offence has its code, the third excludes, and the run ends as
one in which that member was absent. A coordinator at work, real sockets, peers that misbehave on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq

from coordinator.decisions import facts
from fedap_core.arrays import Float32Array
from protocol.codec import decode, encode
from protocol.limits import HEADER_BYTES
from protocol.messages import Error, Heartbeat, Message, Reject, Welcome
from tests.support.federation import MEMBERS, WAIT_S, RunningCoordinator, expected_rows, fields, member, running
from tests.support.peer import ThreadedPeer
from tests.support.run_files import told_facts
from tests.support.tiny_models import TinyModel, drift, moments, tiny_model, wire_moments

ROUNDS = 5
HONEST = ("a", "c")


def settings(folder: Path, model: TinyModel, algorithm: str = "fedavg", **more: object) -> dict[str, Any]:
    return fields(folder / "run", model.write(folder / "i.safetensors"), algorithm=algorithm, rounds=ROUNDS, **more)


def require_absent(peers: Sequence[ThreadedPeer], model: TinyModel, algorithm: str) -> None:
    """The honest ones hold what they would hold without b. A product of more rows may round otherwise: compared to six
    digits where not to the bit."""
    expected = expected_rows(model, algorithm, rounds=ROUNDS, names=HONEST)
    for peer in peers:
        assert peer.log.finish_reason == "rounds"
        assert peer.log.final is not None
        np.testing.assert_allclose(peer.log.final, expected[peer.name], rtol=1e-6, atol=1e-6)


def excluded(folder: Path) -> list[str]:
    return [fact.member for fact in told_facts(folder / "run") if isinstance(fact, facts.Quarantined)]


@pytest.mark.parametrize(("poison", "code"), [(np.nan, "not-finite"), (1e30, "out-of-range")])
def test_the_third_poisoned_update_excludes_and_the_run_ends_as_without_its_sender(
    tmp_path: Path, poison: float, code: str
) -> None:
    model = tiny_model()
    coordinator = RunningCoordinator(settings(tmp_path, model))

    def spoilt(round_no: int, weights: Float32Array) -> Float32Array:
        update = drift("b", round_no, weights)
        update[17] = poison
        return update

    honest = [member(coordinator, model, name) for name in HONEST]
    offender = ThreadedPeer(coordinator.federation.endpoint, model.hello("b"), work=spoilt)
    with running([*honest, offender]):
        assert all(peer.ended.wait(WAIT_S) for peer in [*honest, offender])
        assert not coordinator.join().aborted
    assert [error.code for error in offender.log.errors] == [code] * 3
    assert offender.log.rejected is not None
    assert offender.log.rejected.code == "quarantined"
    assert excluded(tmp_path) == ["b"]
    require_absent(honest, model, "fedavg")


def test_statistics_that_are_not_numbers_are_refused_and_their_sender_is_mixed_with_nobody(tmp_path: Path) -> None:
    model = tiny_model()
    coordinator = RunningCoordinator(settings(tmp_path, model, "fedap"))
    honest = [member(coordinator, model, name) for name in HONEST]
    spoilt = {name: np.full_like(value, np.nan) if "mean" in name else value for name, value in measured("b").items()}
    offender = ThreadedPeer(
        coordinator.federation.endpoint, model.hello("b"), work=lambda number, weights: drift("b", number, weights),
        moments=spoilt,
    )  # fmt: skip
    with running([*honest, offender]):
        assert all(peer.ended.wait(WAIT_S) for peer in honest)
        assert not coordinator.join().aborted
    assert {error.code for error in offender.log.errors} == {"bad-statistics"}
    require_absent(honest, model, "fedap")


def measured(name: str) -> dict[str, Any]:
    return dict(wire_moments(moments(name)))


class Intruder:
    """Says a proper hello as b, then whatever a test wants, and hears what it is told."""

    def __init__(self, endpoint: str, model: TinyModel) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)
        self.socket.send_multipart(encode(model.hello("b")), copy=False)
        if not isinstance(self.receive(), Welcome):
            raise AssertionError("not welcome")

    def receive(self) -> Message:
        if not self.socket.poll(int(WAIT_S * 1000)):
            raise AssertionError("no answer")
        return decode(self.socket.recv_multipart())

    def until_rejected(self) -> tuple[list[str], str]:
        """The codes of all errors, and that of the rejection."""
        codes: list[str] = []
        while not isinstance(message := self.receive(), Reject):
            if isinstance(message, Error):
                codes.append(message.code)
        return codes, message.code

    def close(self) -> None:
        self.socket.close()
        self._context.term()


def beat() -> list[bytes]:
    frames = encode(Heartbeat(run="test", round_no=0, have=None, want=None))
    return [bytes(frame) for frame in frames]


@pytest.mark.parametrize(
    ("frames", "times", "code"),
    [
        pytest.param([bytes(HEADER_BYTES + 1)], 3, "too-large", id="oversized headers"),
        pytest.param([b"garbage"], 500, "bad-header", id="garbage"),
        pytest.param(beat(), 500, "rate", id="more than the rate"),
    ],
)
def test_a_member_that_floods_is_excluded_and_the_run_ends_as_without_it(
    tmp_path: Path, frames: list[bytes], times: int, code: str
) -> None:
    """20 messages a second, two seconds' worth at once: 500 proper heartbeats are 460 too many."""
    model = tiny_model()
    others = {"names": MEMBERS, "at_least": len(HONEST), "enrolment_s": 0.0}
    coordinator = RunningCoordinator(settings(tmp_path, model, network={"messages_per_s": 20.0}, members=others))
    intruder = Intruder(coordinator.federation.endpoint, model)
    for _ in range(times):
        intruder.socket.send_multipart(frames)
    codes, rejection = intruder.until_rejected()
    intruder.close()
    assert (set(codes), rejection) == ({code}, "quarantined")
    assert coordinator.federation.exchange.counts[code] >= 3
    honest = [member(coordinator, model, name) for name in HONEST]
    with running(honest):
        assert all(peer.ended.wait(WAIT_S) for peer in honest)
        assert not coordinator.join().aborted
    assert excluded(tmp_path) == ["b"]
    require_absent(honest, model, "fedavg")
