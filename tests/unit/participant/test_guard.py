"""A coordinator's message that never ends costs a participant its line, not its memory, however long it was idle."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
import zmq

from participant.wire.line import Address, Line
from protocol.backlog import MESSAGE_BYTES
from protocol.limits import MIB
from scripts.drill.hostile.zmtp import RawListener, RawPeer, frame, message

DEADLINE_S = 30
SLACK_BYTES = 256 * MIB
"""What may come in until a busy machine has looked often enough."""


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield made
    made.destroy(linger=0)


def test_a_message_without_end_costs_the_line_even_after_a_long_silence(
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    sent: list[int] = []
    with closing(RawListener()) as listener, closing(Line(context, Address(endpoint=listener.endpoint))) as line:
        peer = listener.accept()
        assert peer is not None
        _wait_until_up(line)
        peer.send(message([b"an honest message"]))
        assert line.socket.poll(1000 * DEADLINE_S)
        assert line.receive() is not None
        assert not line.monitor.poll(1500), "an honest coordinator was cut"  # the guard's pauses are long by now
        sender = threading.Thread(target=lambda: sent.append(_send_without_end(peer)))
        sender.start()
        reason = _wait_until_lost(line)
        with suppress(OSError):  # it may have noticed by itself
            peer.socket.shutdown(socket.SHUT_RDWR)  # what was held off is not acknowledged any more
        sender.join()
        peer.close()
    assert reason == "the connection broke"
    assert sum(sent) < MESSAGE_BYTES + SLACK_BYTES


def _wait_until_up(line: Line) -> None:
    while not line.is_up:
        assert line.monitor.poll(1000 * DEADLINE_S), "never connected"
        assert line.read_monitor() is None


def _wait_until_lost(line: Line) -> str:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        assert line.receive() is None  # seen empty, as by the shell
        if line.monitor.poll(10) and (reason := line.read_monitor()) is not None:
            return reason
    pytest.fail("the line still stands")


def _send_without_end(peer: RawPeer) -> int:
    """Frames of one message until the connection breaks or it is far too late; the bytes that were sent."""
    piece, sent = frame(bytes(MIB // 4), more=True), 0
    try:
        while sent < 2 * SLACK_BYTES:
            peer.send(piece)
            sent += len(piece)
    except OSError:
        return sent
    return sent
