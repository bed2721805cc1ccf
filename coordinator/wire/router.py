"""The ROUTER socket: receives and sends frames, and lets other threads wake the one that waits for it.

Only transport: it names connections, knows the key that a message came with, queues messages for slow peers, and
notices when a peer is gone. It never reads the content of a frame. All methods but `wake` are for one thread.
"""

from __future__ import annotations

import errno
import os
import select
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import structlog
import zmq

from coordinator.wire.auth import Authenticator, secure
from coordinator.wire.guard import ConnectionGuard
from fedap_core.errors import InvalidInput
from protocol.backlog import BacklogLimits
from protocol.contracts import Buffer
from protocol.host.tcp import can_guard
from protocol.host.threads import started_with_low_priority
from protocol.keys import KeyPair
from protocol.limits import FRAME_BYTES, IN_FLIGHT_BYTES, SETS_PER_MESSAGE, SLICE_BYTES, WINDOW_SLICES

log = structlog.get_logger()

STRANGERS = 256
"""Most open connections that were not welcomed, unless the number of expected members is given."""

QUEUED_MESSAGES = 16
"""Messages that ZeroMQ queues per peer and direction: four slices and the small ones in between, four times over."""

WAITING_MESSAGES = 64
"""Messages kept for a peer whose queue is full; further ones are lost, and sent again after its heartbeats."""

RETRY_MS = 5
"""Pause between attempts for a peer whose queue is full: a ROUTER socket cannot report which peer has room again."""

KEEPALIVE_S = 15
KEEPALIVE_PROBES = 4
"""TCP's own probes detect half-open connections and free what is queued for them. Not ZeroMQ's heartbeats: its release
4.3.5 aborts the process when one is due on a connection that was reset with its queue full."""

IO_NICENESS = 10
"""On a busy machine the guard's thread has to wait for its turn, and ZeroMQ's must not use that time to read on:
the memory that a flood costs grows with it. On an idle machine this has no effect."""

_MOST_FRAMES = 1 + 1 + SETS_PER_MESSAGE + 1
"""Most frames kept of a message: the sender, the header, one for each set, and one more."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """A message as received. identity: the public key in Z85, empty on a socket without keys; address: of the sender,
    empty if there is none."""

    connection: str
    identity: str
    address: str
    frames: tuple[Buffer, ...]


class Router:
    """Bound to `endpoint` when built. `admits` decides on keys and runs in the authenticator's thread."""

    def __init__(
        self,
        *,
        endpoint: str,
        keys: KeyPair | None = None,
        admits: Callable[[str], bool],
        in_flight_bytes: int = IN_FLIGHT_BYTES,
        bounds: BacklogLimits | None = None,
    ) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        with started_with_low_priority(IO_NICENESS):  # the first socket starts the library's threads
            self._socket = self._context.socket(zmq.ROUTER)
        self._authenticator = Authenticator(self._context, admits) if keys is not None else None
        self._has_keys = keys is not None
        guarded = can_guard(endpoint)
        self._set_options(guarded=guarded)
        self._socket.ipv6 = "[" in endpoint  # such as tcp://[::]:5555, which accepts IPv4 as well
        if keys is not None:
            secure(self._socket, keys)
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._wake_read, zmq.POLLIN)
        self._alarm = select.poll()
        self._alarm.register(self._wake_read, select.POLLIN)
        self._waiting: dict[str, deque[Sequence[Buffer]]] = {}
        self._held: dict[str, list[zmq.MessageTracker]] = {}
        self._most_held = max(in_flight_bytes // SLICE_BYTES, 1)
        self.lost_messages = 0
        """Messages dropped because their receiver's queue was full for too long."""
        bounds = bounds or BacklogLimits(strangers=STRANGERS)
        accepted = self._authenticator.accepted_from if self._authenticator is not None else None
        self._guard = (
            ConnectionGuard(self._socket, bounds=bounds, accepted=accepted, wake=self.wake) if guarded else None
        )
        if self._guard is None and endpoint.startswith("tcp://"):
            log.warning("guard.off", effect="endless messages are not detected on this system")
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close(linger_s=0)
            raise InvalidInput("network.endpoint", endpoint, "an address that can be bound", str(error)) from error
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def _set_options(self, *, guarded: bool) -> None:
        """Set the socket's options. A guarded socket has no limit on incoming messages: a connection that is reset
        while a PING waits in its full queue would abort the process (ZeroMQ 4.3.5); the guard counts bytes instead.
        A peer of ZMTP 1 or 2 would abort it too, if it connects while the socket is being closed; a domain for
        authentication makes the library refuse such peers, even though nobody without keys is authenticated."""
        self._socket.router_mandatory = True
        self._socket.router_handover = False
        self._socket.maxmsgsize = FRAME_BYTES
        self._socket.sndhwm = QUEUED_MESSAGES
        self._socket.rcvhwm = 0 if guarded else QUEUED_MESSAGES
        self._socket.linger = 0
        self._socket.zap_domain = b"fedap"
        self._socket.tcp_keepalive = 1
        self._socket.tcp_keepalive_idle = self._socket.tcp_keepalive_intvl = KEEPALIVE_S
        self._socket.tcp_keepalive_cnt = KEEPALIVE_PROBES

    @property
    def refused_keys(self) -> int:
        """Number of refused handshakes."""
        return self._authenticator.refused if self._authenticator is not None else 0

    def wake(self) -> None:
        """End a `wait`, from any thread or signal handler."""
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            return  # the pipe is full: it will wake anyway

    def wait(self, timeout_s: float | None, *, hurry: bool = False) -> None:
        """Wait until a message arrives, `wake` is called, or the time is over; with `hurry`, at most RETRY_MS."""
        timeout_ms = None if timeout_s is None else max(0, min(int(timeout_s * 1000) + 1, 3_600_000))
        if self._waiting or hurry:
            timeout_ms = RETRY_MS if timeout_ms is None else min(RETRY_MS, timeout_ms)
        ready = dict(self._poller.poll(timeout_ms))
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)

    def rest(self, timeout_s: float) -> bool:
        """Wait until `wake` is called or the time is over; messages stay in the socket. Return whether it was
        called."""
        is_awake = bool(self._alarm.poll(int(timeout_s * 1000)))
        if is_awake:
            os.read(self._wake_read, 4096)
        return is_awake

    def unread_members(self) -> int | None:
        """Return roughly how many members have messages in the socket; None: unknown, or others are connected."""
        return self._guard.unread_members() if self._guard is not None else None

    def received(self, most: int) -> Iterator[Received]:
        """Yield the messages in the socket, at most `most`, because the loop has other work too."""
        for _ in range(most):
            try:
                frames = self._frames()
            except zmq.Again:
                if self._guard is not None:
                    self._guard.drained()
                return
            connection = frames[0].bytes.hex()
            if self._guard is not None and self._guard.ignores(connection):
                continue
            yield Received(
                connection=connection,
                identity=_property(frames[-1], "User-Id") if self._has_keys else "",
                address=_property(frames[-1], "Peer-Address"),
                frames=tuple(frame.buffer for frame in frames[1:]),
            )

    def _frames(self) -> list[zmq.Frame]:
        """Return the frames of the next message. If it has more than any legal message, the rest is discarded while
        reading; one surplus frame is kept, so that the codec refuses the message."""
        frame = self._socket.recv(zmq.NOBLOCK, copy=False)
        frames, sizes = [frame], []
        while frame.more:
            frame = self._socket.recv(copy=False)
            sizes.append(len(frame))
            if len(frames) < _MOST_FRAMES:
                frames.append(frame)
        if self._guard is not None:
            self._guard.received(frames[0].bytes.hex(), frames[-1], sizes)
        return frames

    def trust(self, connection: str) -> None:
        """Mark a connection as a member's, which may have slices in flight."""
        if self._guard is not None:
            self._guard.trust(connection)

    @property
    def cut_connections(self) -> int:
        """Number of connections cut because they had more unread bytes than an honest peer sends."""
        return self._guard.cut if self._guard is not None else 0

    def send(self, connection: str, frames: Sequence[Buffer]) -> bool:
        """Send a message; False if the connection is gone. Frames are not copied: never write to them afterwards."""
        waiting = self._waiting.get(connection)
        if waiting:
            self._keep(connection, frames)
            return True
        return self._try(connection, frames)

    def has_room(self, connection: str) -> bool:
        """Whether a slice may be sent: the slices that ZeroMQ still holds are bounded, per peer and in total. Otherwise
        a peer that restarts a transfer again and again would fill memory with slices that it no longer needs."""
        held = self._held.get(connection)
        if held is not None:
            held[:] = [tracker for tracker in held if not tracker.done]
            if not held:
                del self._held[connection]
        if connection in self._waiting or len(self._held.get(connection, ())) >= WINDOW_SLICES:
            return False
        if sum(map(len, self._held.values())) < self._most_held:
            return True
        self._held = {name: left for name, kept in self._held.items() if (left := [t for t in kept if not t.done])}
        return sum(map(len, self._held.values())) < self._most_held

    def send_slice(self, connection: str, frames: Sequence[Buffer]) -> bool:
        """Send a slice; False if the connection is gone. Call `has_room` first: if the peer's queue is full, the slice
        is lost and its receiver will request it again."""
        try:
            tracker = self._socket.send_multipart(
                [bytes.fromhex(connection), *frames], zmq.NOBLOCK, copy=False, track=True
            )
        except zmq.Again:
            self.lost_messages += 1
            return True
        except zmq.ZMQError as error:
            if error.errno != errno.EHOSTUNREACH:
                raise
            return False
        if tracker is not None:
            self._held.setdefault(connection, []).append(tracker)
        return True

    def flush(self) -> list[str]:
        """Retry messages that could not be sent; return connections that turn out to be gone."""
        gone = []
        for connection in list(self._waiting):
            waiting = self._waiting.pop(connection)
            while waiting:
                if not self._try(connection, waiting[0]):
                    gone.append(connection)
                    waiting.clear()
                elif connection in self._waiting:  # still full: the rest stays queued after the first
                    waiting.popleft()
                    self._waiting[connection].extend(waiting)
                    break
                else:
                    waiting.popleft()
        return gone

    def forget(self, connection: str) -> None:
        """Drop messages queued for a connection. Slices that ZeroMQ still holds for it count until it frees them."""
        self._waiting.pop(connection, None)
        if self._guard is not None:
            self._guard.forget(connection)

    def close(self, *, linger_s: float) -> None:
        """Give queued messages `linger_s` to be sent, then close."""
        if self._guard is not None:
            self._guard.close()
        self._socket.close(linger=int(linger_s * 1000))
        if self._authenticator is not None:
            self._authenticator.close()
        self._context.term()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _try(self, connection: str, frames: Sequence[Buffer]) -> bool:
        try:
            self._socket.send_multipart([bytes.fromhex(connection), *frames], zmq.NOBLOCK, copy=False)
        except zmq.Again:
            self._keep(connection, frames)
        except zmq.ZMQError as error:
            if error.errno != errno.EHOSTUNREACH:
                raise
            self._waiting.pop(connection, None)
            return False
        return True

    def _keep(self, connection: str, frames: Sequence[Buffer]) -> None:
        waiting = self._waiting.setdefault(connection, deque())
        if len(waiting) < WAITING_MESSAGES:
            waiting.append(frames)
        else:
            self.lost_messages += 1


def _property(frame: zmq.Frame, name: str) -> str:
    """Return a property of a frame from the library: the key authenticated by ZAP, or the sender's address."""
    try:
        found = frame.get(name)
    except zmq.ZMQError:
        return ""
    return found if isinstance(found, str) else ""
