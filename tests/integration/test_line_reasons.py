"""Why a participant cannot connect, as far as the two ends of a real socket can tell: nobody there, another key, keys
on one side only, a key that is not listed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import zmq

from coordinator.record.member_list import MemberList
from coordinator.wire.auth import Authenticator, secure
from participant.wire.keys import Keys
from participant.wire.line import Address, Line
from protocol.host.keys import generate_keys
from protocol.keys import KeyPair

WAIT_MS = 10_000
SERVER, MEMBER, STRANGER, OTHER = (generate_keys() for _ in range(4))


@contextmanager
def listening(folder: Path, *, keyed: bool) -> Iterator[str]:
    """A socket that listens as a coordinator does; its address."""
    (folder / "north.pub").write_text(MEMBER.public_text)
    with ExitStack() as stack:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        router = context.socket(zmq.ROUTER)
        stack.callback(router.close, linger=0)
        if keyed:
            listed = MemberList(folder)
            authenticator = Authenticator(context, lambda key: listed.name_of(key) is not None)
            stack.callback(authenticator.close)
            secure(router, SERVER)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        yield f"tcp://127.0.0.1:{port}"


def why(endpoint: str, keys: Keys | None) -> str | None:
    """What the line says when it is gone; None when it stands."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    line = Line(context, Address(endpoint=endpoint, keys=keys))
    try:
        while not line.is_up:
            assert line.monitor.poll(WAIT_MS), "nothing happened"
            if (reason := line.read_monitor()) is not None:
                return reason
        return None
    finally:
        line.close()
        context.term()


def keys(own: KeyPair, coordinator: KeyPair) -> Keys:
    return Keys(public=own.public, secret=own.secret, coordinator=coordinator.public)


@pytest.mark.parametrize(
    ("keyed", "given", "said"),
    [
        (True, keys(MEMBER, SERVER), None),
        (True, keys(MEMBER, OTHER), "another key than --coordinator-key, or uses no keys"),
        (False, keys(MEMBER, SERVER), "another key than --coordinator-key, or uses no keys"),
        (True, None, "the coordinator uses keys (give --keys and --coordinator-key)"),
        (True, keys(STRANGER, SERVER), "does not admit this key"),
    ],
    ids=["right", "wrong coordinator key", "coordinator without keys", "participant without keys", "not listed"],
)
def test_reason_names_what_is_wrong_with_the_keys(
    keyed: bool, given: Keys | None, said: str | None, tmp_path: Path
) -> None:
    with listening(tmp_path, keyed=keyed) as endpoint:
        found = why(endpoint, given)
    assert (found is None) == (said is None)
    assert (said or "") in (found or "")


def test_port_where_nobody_listens_is_distinguished_from_a_firewall() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening: nobody else gets it
        found = why(f"tcp://127.0.0.1:{taken.getsockname()[1]}", keys(MEMBER, SERVER))
    assert found == "the connection was refused: no process listens at this address and port"
