"""Claims about peers that misbehave: refused with the right code, counted, never fatal; the others reach the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgpack  # type: ignore[import-untyped]
import numpy as np
import pytest
import zmq

from fedap_core.arrays import Float32Array
from protocol.codec import decode, encode
from protocol.host.keys import generate_keys, write_key_file
from protocol.limits import HEADER_BYTES, SETS_PER_MESSAGE
from protocol.messages import Error, Hello, HelloRequired, Message, Reject, Welcome
from protocol.versions import VERSION
from tests.support.federation import MEMBERS, WAIT_S, RunningCoordinator, expected_rows, fields, member, running
from tests.support.hostility import wait_for
from tests.support.peer import ThreadedPeer
from tests.support.tiny_models import TinyModel, drift, moments, tiny_model, wire_moments


class Raw:
    """A socket that says whatever a test wants."""

    def __init__(self, endpoint: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)

    def ask(self, *frames: bytes) -> Message:
        """Send frames and return the first answer."""
        self.socket.send_multipart(frames)
        return self.receive()

    def receive(self) -> Message:
        if not self.socket.poll(int(WAIT_S * 1000)):
            raise AssertionError("no answer")
        return decode(self.socket.recv_multipart())

    def close(self) -> None:
        self.socket.close()
        self._context.term()


@contextmanager
def led_by(tmp_path: Path, model: TinyModel) -> Iterator[tuple[RunningCoordinator, Raw]]:
    """A coordinator that waits for its members, and a stranger at its socket."""
    serving = RunningCoordinator(fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg"))
    raw = Raw(serving.federation.endpoint)
    try:
        yield serving, raw
    finally:
        raw.close()
        serving.federation.coordinator.request_stop()
        serving.federation.coordinator.request_stop()
        serving.join()


def hello_frames(model: TinyModel, **changes: object) -> list[bytes]:
    hello = model.hello("a")
    changed = {name: changes.get(name, getattr(hello, name)) for name, _ in hello.CONTRACTS}
    return [bytes(frame) for frame in encode(Hello(**changed))]  # type: ignore[arg-type]


def with_version(frames: list[bytes], major: int) -> list[bytes]:
    header = msgpack.unpackb(frames[0])
    return [msgpack.packb([major, *header[1:]]), *frames[1:]]


CASES: dict[str, tuple[Callable[[TinyModel], list[bytes]], str]] = {
    "no frames beyond an empty one": (lambda _: [b""], "bad-header"),
    "random bytes": (lambda _: [os.urandom(100)], "bad-header"),
    "a frame more than any message has": (lambda _: [b"x"] * (SETS_PER_MESSAGE + 2), "bad-frames"),
    "ten thousand frames": (lambda _: [b"x"] * 10_000, "bad-frames"),
    "another major version": (lambda model: with_version(hello_frames(model), 9), "version"),
    "an unknown kind": (lambda _: [msgpack.packb([VERSION.major, 0, "dance", {}])], "unknown-kind"),
    "a coordinator's words": (lambda _: [bytes(encode(HelloRequired())[0])], "wrong-speaker"),
    "a frame too many": (lambda model: [*hello_frames(model), b"x"], "bad-frames"),
}


def test_what_cannot_be_read_is_answered_with_its_code_and_counted(tmp_path: Path) -> None:
    model = tiny_model()
    with led_by(tmp_path, model) as (serving, _):
        for make, code in CASES.values():
            stranger = Raw(serving.federation.endpoint)
            answer = stranger.ask(*make(model))
            stranger.close()
            assert isinstance(answer, Error)
            assert answer.code == code
            assert serving.federation.exchange.counts[code] >= 1


def test_an_oversized_header_of_a_member_is_answered_and_a_strangers_costs_its_connection(tmp_path: Path) -> None:
    model, oversized = tiny_model(), bytes(HEADER_BYTES + 1)
    with led_by(tmp_path, model) as (serving, member):
        assert isinstance(member.ask(*hello_frames(model)), Welcome)
        answer = member.ask(oversized)
        assert isinstance(answer, Error)
        assert answer.code == "too-large"
        with closing(Raw(serving.federation.endpoint)) as stranger:
            stranger.socket.send(oversized)
            wait_for(lambda: serving.federation.exchange.cut_connections > 0, "the stranger to be cut")
            answer = stranger.ask(os.urandom(100))  # by a new connection
        assert isinstance(answer, Error)
        assert answer.code == "bad-header"


UNFIT: dict[str, dict[str, object]] = {
    "wrong-layout": {"model_layout": "00" * 16},
    "wrong-classes": {"classes": "00" * 16},
    "wrong-input-shape": {"input_shape": (3, 3)},
    "wrong-preprocessing": {"preprocessing": "00" * 8},
    "too-few-samples": {"train_samples": 1},
    "unknown-key": {"name": "stranger"},
}


def test_a_hello_that_does_not_fit_is_rejected_with_both_values(tmp_path: Path) -> None:
    model = tiny_model()
    with led_by(tmp_path, model) as (serving, raw):
        for code, changes in UNFIT.items():
            with closing(Raw(serving.federation.endpoint)) as other:
                answer = other.ask(*hello_frames(model, **changes))
            assert isinstance(answer, Reject)
            assert answer.code == code
            assert code == "unknown-key" or (answer.ours and answer.yours)
        assert isinstance(raw.ask(*hello_frames(model)), Welcome)


def test_ten_thousand_garbage_messages_do_not_keep_anybody_from_the_end(tmp_path: Path) -> None:
    """Strangers are answered at most a few times, so most of the flood is only counted, by its code or by the rate. One
    that sends faster than it is read is cut, so the run may end before all of it is sent: then it has to wait."""
    model = tiny_model()
    serving = RunningCoordinator(fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg"))
    raw, garbage = Raw(serving.federation.endpoint), os.urandom(64)
    peers = [member(serving, model, name) for name in MEMBERS]
    with running(peers):
        raw.socket.sndtimeo = 5_000
        with suppress(zmq.Again):
            for _ in range(10_000):
                raw.socket.send(garbage)
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not serving.join().aborted
    raw.close()
    expected = expected_rows(model, "fedavg", rounds=3)
    assert all(peer.log.final is not None for peer in peers)
    assert {peer.name: np.asarray(peer.log.final).tobytes() for peer in peers} == {
        name: row.tobytes() for name, row in expected.items()
    }
    counts = serving.federation.exchange.counts
    assert counts["bad-header"] + counts["rate"] + counts["bad-frames"] > 0


@pytest.mark.parametrize(("poison", "code"), [(np.nan, "not-finite"), (np.inf, "not-finite"), (1e30, "out-of-range")])
def test_a_poisoned_update_is_refused_and_the_round_continues_without_it(
    tmp_path: Path, poison: float, code: str
) -> None:
    """b's first two updates hold one bad value: refused. The others end with finite weights; nobody sees the poison."""
    model = tiny_model()
    serving = RunningCoordinator(fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg"))

    def spoilt(round_no: int, weights: Float32Array) -> Float32Array:
        update = drift("b", round_no, weights)
        if round_no < 2:
            update[17] = poison
        return update

    peers = [member(serving, model, name) for name in ("a", "c")]
    peers.append(
        ThreadedPeer(serving.federation.endpoint, model.hello("b"), work=spoilt, moments=wire_moments(moments("b")))
    )
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not serving.join().aborted
    assert [error.code for error in peers[2].log.errors] == [code, code]
    for peer in peers:
        assert all(np.isfinite(row).all() for row in peer.log.delivered.values())
        assert peer.log.final is not None
        assert np.abs(peer.log.final).max() < 100


def test_a_stolen_name_is_refused_while_its_owner_is_known_by_its_key(tmp_path: Path) -> None:
    """Three members by key; a fourth key is turned away at the door, and a member's key cannot take another's name."""
    model, pairs = tiny_model(), {name: generate_keys() for name in (*MEMBERS, "thief", "server")}
    write_key_file(tmp_path / "c.key", pairs["server"])
    (tmp_path / "members").write_text("".join(f"{name} {pairs[name].public}\n" for name in MEMBERS))
    settings = fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg")
    settings |= {
        "members": {"keys": str(tmp_path / "members"), "at_least": 3},
        "network": {"secret_key": str(tmp_path / "c.key")},
    }
    serving = RunningCoordinator(settings)

    def keyed(name: str, claims: str) -> ThreadedPeer:
        keys = (pairs["server"].public, pairs[name].public, pairs[name].secret)
        peer = member(serving, model, claims)
        peer.keys = keys
        peer.work = lambda round_no, weights: drift(name, round_no, weights)
        return peer

    peers = [keyed(name, "a") for name in MEMBERS]  # all claim to be a; their keys say who they are
    thief = keyed("thief", "a")
    with running([thief, *peers]):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not serving.join().aborted
    expected = expected_rows(model, "fedavg", rounds=3)
    found = {name: np.asarray(peer.log.final).tobytes() for name, peer in zip(MEMBERS, peers, strict=True)}
    assert found == {name: row.tobytes() for name, row in expected.items()}
    assert thief.log.welcomes == 0
