"""One connection to the coordinator: a DEALER socket, its encryption, and the monitor that reports when it breaks.

A line is used once: it does not reconnect by itself, because messages in transit on a broken connection are lost and
only the machine knows what to send again. Handles frames, not messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import zmq
from zmq.utils.monitor import recv_monitor_message

from fedap_core.errors import InvalidInput
from participant.wire.guard import TrafficMonitor, WatchedConnection
from participant.wire.keys import Keys
from protocol.contracts import Buffer
from protocol.endpoints import is_local, port_number
from protocol.host.tcp import can_guard
from protocol.limits import FRAME_BYTES

QUEUED_MESSAGES = 16
"""Per direction: with slices of 4 MiB, a longer queue would only take memory."""

KEEPALIVE_S = 15
KEEPALIVE_PROBES = 4
"""TCP's own probes detect a half-open line while neither side expects a message."""

LAST_WORDS_MS = 2000
"""How long a closing line may take to send its last messages."""

_UP = zmq.EVENT_HANDSHAKE_SUCCEEDED
_MADE = zmq.EVENT_CONNECTED
_DOWN = {
    zmq.EVENT_DISCONNECTED: "the connection broke",
    zmq.EVENT_CLOSED: "the connection was refused: no process listens at this address and port",
    zmq.EVENT_CONNECT_RETRIED: "the connection was refused: no process listens at this address and port",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "the coordinator does not admit this key",
}
_UNLIKE = (zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
_WRONG_KEY = "the coordinator at this address has another key than --coordinator-key, or uses no keys"
_NO_KEYS = (
    "the handshake failed: the coordinator uses keys (give --keys and --coordinator-key), or it is not a coordinator"
)

_MONITOR = TrafficMonitor()
"""One thread for all lines of this process."""

Context = zmq.Context[zmq.Socket[bytes]]
Socket = zmq.Socket[bytes]


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the coordinator is. Without keys, only a loopback or local address, unless `insecure`."""

    endpoint: str
    keys: Keys | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.endpoint)
        except ValueError as error:  # brackets without an IPv6 address in them
            raise InvalidInput("coordinator", self.endpoint, "tcp://host:port or ipc://path", f"{error}.") from error
        if parts.scheme not in ("tcp", "ipc") or not (parts.netloc or parts.path):
            raise InvalidInput("coordinator", self.endpoint, "tcp://host:port or ipc://path")
        port = self.endpoint.rpartition(":")[2]  # ZeroMQ would connect to 4464 for 70000 without an error
        if parts.scheme == "tcp" and not (parts.hostname and port_number(port)):
            raise InvalidInput("coordinator", self.endpoint, "tcp://host:port, the port from 1 to 65535")
        if self.keys is None and not self.insecure and not is_local(self.endpoint):
            fix = "Give --keys and --coordinator-key (or, in a closed network, --insecure)."
            raise InvalidInput("keys", "none", f"keys for {self.endpoint}, which is not this machine", fix)


class Line:
    """An attempt to connect, and the connection if it succeeds. `socket` and `monitor` are for a poller."""

    def __init__(self, context: Context, address: Address) -> None:
        self.socket: Socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, QUEUED_MESSAGES)
        is_guarded = can_guard(address.endpoint)
        # ZeroMQ 4.3.5 aborts the process if a connection is reset while its queue is full and a PING is waiting
        self.socket.setsockopt(zmq.RCVHWM, 0 if is_guarded else QUEUED_MESSAGES)
        self.socket.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES)
        self.socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self.socket.setsockopt(zmq.IPV6, 1)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_S)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_S)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, KEEPALIVE_PROBES)
        if address.keys is not None:
            self.socket.curve_publickey = address.keys.public.encode()
            self.socket.curve_secretkey = address.keys.secret.encode()
            self.socket.curve_serverkey = address.keys.coordinator.encode()
        wanted = _UP | _any(_DOWN) | _any(_UNLIKE) | (_MADE if is_guarded else 0)
        self.monitor: Socket = self.socket.get_monitor_socket(wanted)
        self.is_up = False
        self._watched: WatchedConnection | None = None
        self._is_encrypted = address.keys is not None
        try:
            self.socket.connect(address.endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise InvalidInput("coordinator", address.endpoint, "an address to connect to", str(error)) from error

    def read_monitor(self) -> str | None:
        """Read one monitor event. Return None if the line is up or still connecting, otherwise why it was lost."""
        notice = recv_monitor_message(self.monitor)
        event = int(notice["event"])
        if event == _UP:
            self.is_up = True
            return None
        if event == _MADE:
            self._release()
            self._watched = _MONITOR.watch(int(notice["value"]), encrypted=self._is_encrypted)
            return None
        self._release()
        if event in _UNLIKE:  # after a failed handshake the coordinator gives no reason
            return _WRONG_KEY if self._is_encrypted else _NO_KEYS
        return _DOWN.get(zmq.Event(event), "the connection is gone")

    def receive(self) -> list[Buffer] | None:
        """Return the frames of one message, or None if there is none."""
        try:
            frames = [frame.buffer for frame in self.socket.recv_multipart(zmq.NOBLOCK, copy=False)]
        except zmq.Again:
            if self._watched is not None:
                self._watched.drained()
            return None
        if self._watched is not None:
            self._watched.received(frame.nbytes for frame in frames)
        return list(frames)

    def can_send(self) -> bool:
        """Whether the socket accepts another message."""
        return bool(self.socket.poll(0, zmq.POLLOUT))

    def send(self, frames: Sequence[Buffer]) -> bool:
        """Pass a message to the socket; False if its queue is full and the caller must retry. Large frames are not
        copied: never write to them afterwards. The socket keeps them alive until they are sent."""
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        return True

    def close(self, *, linger_ms: int = 0) -> None:
        """Close the socket and both ends of its monitor: an open one would block the termination of its context."""
        self._release()
        self.socket.disable_monitor()
        self.monitor.close()
        self.socket.close(linger=linger_ms)

    def _release(self) -> None:
        if self._watched is not None:
            _MONITOR.release(self._watched)
            self._watched = None


def shared_context(lines: int) -> Context:
    """Create a ZeroMQ context for that many lines at a time: each has a socket and the two ends of its monitor."""
    context: Context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 4 * lines + 16)
    return context


def _any(events: Sequence[zmq.Event] | dict[zmq.Event, str]) -> int:
    mask = 0
    for event in events:
        mask |= event
    return mask
