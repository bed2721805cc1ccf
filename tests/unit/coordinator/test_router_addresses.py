"""Claims about where a coordinator can listen: an IPv6 address, and both families at once. Real sockets."""

from __future__ import annotations

import socket

import pytest
import zmq

from coordinator.wire.router import Received, Router
from tests.support.hostility import wait_for


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
@pytest.mark.parametrize(
    ("listening", "host", "seen"),
    [("[::1]", "[::1]", "::1"), ("[::]", "[::1]", "::1"), ("[::]", "127.0.0.1", "127.0.0.1")],
)
def test_an_ipv6_address_is_listened_on_and_the_senders_address_is_known(listening: str, host: str, seen: str) -> None:
    router = Router(endpoint=f"tcp://{listening}:*", admits=lambda _: True)
    received: list[Received] = []

    def has_received() -> bool:
        router.wait(0.1)
        received.extend(router.received(8))
        return bool(received)

    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 0
        peer.ipv6 = True
        peer.connect(f"tcp://{host}:{router.endpoint.rpartition(':')[2]}")
        peer.send(b"hello")
        wait_for(has_received, "the message")
    router.close(linger_s=0)
    (one,) = received
    assert bytes(one.frames[0]) == b"hello"
    assert one.address.endswith(seen)
