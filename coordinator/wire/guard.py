"""Watches every connection of the socket from outside and cuts those that keep more waiting than any honest peer does.

A thread of its own: the socket's monitor says which descriptors were accepted, TCP says how many bytes came in on each,
the socket's thread says what it has taken (`received`) and who is welcome (`trust`). `protocol.backlog` decides. A cut
ends the TCP connection and nothing else: the library frees what it held, and an honest peer would simply connect again.
A member of whom much waits is held instead: its packets are dropped until they have been read, and TCP repeats them.
While too much lies unread of connections that have ended, new connections are held off: attempts to connect are
dropped, and an honest peer's kernel repeats them. Linux and tcp alone; elsewhere there is no guard, and the socket's
own queue limits take its place.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog
import zmq

from protocol.backlog import Account, BacklogLimits, Excess, UnreadRemains, excesses, must_hold, wire_bytes
from protocol.host.tcp import count_received, cut, drop_packets, own_socket

log = structlog.get_logger()

LOOK_MS = 20
"""Between two looks at what has come in: what a peer can send meanwhile comes on top of every bound."""

MEMBERS_AT_ONCE = 100
"""Members looked at each time, in turn: strangers are looked at every time."""

_MONITOR = "inproc://fedap.guard"
_ACCEPTED, _ENDED, _LISTENING = int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_DISCONNECTED), int(zmq.EVENT_LISTENING)
_EVENT = struct.Struct("=Hi")


@dataclass(kw_only=True, eq=False)
class _Watched:
    """A connection and our own descriptor of it: the library's may be closed and given to somebody else any time. It is
    made at the first look: who comes and goes between two looks costs nothing."""

    account: Account
    socket: socket.socket | None = None
    connections: list[str] = field(default_factory=list)


class ConnectionGuard:
    """`received`, `trust`, `forget`, `ignores`, `drained` and `close` belong to the socket's thread. Close before the
    socket is closed."""

    def __init__(
        self,
        router: zmq.Socket[bytes],
        *,
        bounds: BacklogLimits,
        accepted: Callable[[str], int] | None,
        wake: Callable[[], None],
    ) -> None:
        """accepted: how many handshakes of an address were accepted (`UnreadRemains`); None on a socket without
        keys. wake: has the socket's thread look into the socket, where nobody else may."""
        self._router, self._bounds, self._wake = router, bounds, wake
        self._encrypted = accepted is not None
        router.monitor(_MONITOR, _ACCEPTED | _ENDED | _LISTENING)
        self._monitor = router.context.socket(zmq.PAIR)
        self._monitor.rcvhwm = 0  # the library waits for room in this queue with all of its connections
        self._monitor.linger = 0
        self._monitor.connect(_MONITOR)
        self._monitor_fd = self._monitor.fd
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        """By the library's descriptor: the latest connection that had it."""
        self._by_connection: dict[str, _Watched] = {}
        self._remains = UnreadRemains(accepted)
        self._listener: socket.socket | None = None
        self._is_shut = False
        self._trusted: set[str] = set()
        """Members' connections: what they said last is listened to after they have ended."""
        self._serial = 0
        self._drains = 0
        self._turn = 0
        self.cut = 0
        """Connections ended so far."""
        self._is_closing = False
        self._is_asleep = False
        """The guard's thread waits without a time limit: nobody is connected."""
        self._alarm_read, self._alarm_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)
        self._thread.start()

    # ---- the socket's thread

    def received(self, connection: str, last: zmq.Frame, sizes: Iterable[int]) -> None:
        """A message was taken. last: its last frame, which knows its descriptor."""
        size_bytes = wire_bytes(sizes, encrypted=self._encrypted)
        watched = self._by_connection.get(connection)
        if watched is not None:
            watched.account.read(size_bytes)
        elif (watched := self._link(connection, last)) is not None:
            watched.account.read_bytes += size_bytes  # perhaps of somebody who is gone: nobody is judged by its size

    def drained(self) -> None:
        """The socket was seen empty: every message that is whole has been taken."""
        self._drains += 1

    def trust(self, connection: str) -> None:
        """A member's, and as long as it lasts: it may be at work when its member says hello elsewhere."""
        self._trusted.add(connection)
        watched = self._by_connection.get(connection)
        if watched is not None:
            watched.account.is_member = True

    def forget(self, connection: str) -> None:
        """Nobody's any more."""
        self._trusted.discard(connection)

    def ignores(self, connection: str) -> bool:
        """Whether a message is to be thrown away unread: a stranger's, while new connections are held off. That ends
        the sooner, and an honest stranger sends its hello again."""
        return self._is_shut and connection not in self._trusted

    def close(self) -> None:
        """Let go of every connection. The monitor goes first: a queue that nobody empties would hold up the library."""
        self._router.disable_monitor()
        self._is_closing = True
        self._alarm()
        self._thread.join()
        self._monitor.close(linger=0)
        owned = [self._listener, *(watched.socket for watched in self._watched.values())]
        for one in owned:
            if one is not None:
                one.close()
        os.close(self._alarm_read)
        os.close(self._alarm_write)

    def _alarm(self) -> None:
        """Have the guard's thread look now."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full: it will look anyway
            os.write(self._alarm_write, b"\0")

    def _link(self, connection: str, last: zmq.Frame) -> _Watched | None:
        """Whose message this is. A connection is accepted before it is heard, so its descriptor's latest is its own; if
        that has ended and another has the descriptor by now, the other is credited with a little too much. The guard's
        thread is told: what is read here leaves its descriptor silent, and it may be asleep without a time limit."""
        try:
            descriptor = int(last.get(zmq.SRCFD))
        except (zmq.ZMQError, ValueError):
            return None
        with self._lock:
            self._take_events()
            watched = self._watched.get(descriptor)
            if watched is not None:
                watched.connections.append(connection)
                self._by_connection[connection] = watched
            if self._is_asleep:  # else it looks soon, and not in the moment between a hello and its welcome
                self._alarm()
        return watched

    # ---- the guard's thread

    def _run(self) -> None:
        # The monitor's descriptor, not the monitor: zmq.Poller would look into the socket without the lock, and two
        # threads inside one ZeroMQ socket corrupt its memory. The descriptor tells of changes alone, and of none before
        # the queue was first seen empty: it is emptied once before the first look, and `_take_events` always reads to
        # the end.
        with self._lock:
            self._take_events()
        poller = select.poll()
        poller.register(self._monitor_fd, select.POLLIN)
        poller.register(self._alarm_read, select.POLLIN)
        while True:
            with self._lock:
                self._is_asleep = not (self._watched or self._remains or self._is_shut)
            if self._alarm_read in dict(poller.poll(None if self._is_asleep else LOOK_MS)):
                os.read(self._alarm_read, 4096)
            self._is_asleep = False
            if self._is_closing:
                return
            with self._lock:
                self._take_events()
                looked_at = self._next_to_look_at()
                for descriptor, watched in looked_at:
                    self._look(descriptor, watched)
            accounts = [watched.account for _, watched in looked_at]
            now, drains = time.monotonic(), self._drains
            for excess in excesses(accounts, self._bounds, self._remains, now=now, drains=drains):
                self._cut(excess)
            for _, watched in looked_at:
                self._hold(watched)
            self._pause_or_resume()
            if self._remains or any(account.mark is not None for account in accounts):
                self._wake()

    def _next_to_look_at(self) -> list[tuple[int, _Watched]]:
        strangers = [one for one in self._watched.items() if not one[1].account.is_member]
        members = [one for one in self._watched.items() if one[1].account.is_member]
        start = self._turn = (self._turn + MEMBERS_AT_ONCE) % len(members) if len(members) > MEMBERS_AT_ONCE else 0
        return strangers + (members[start:] + members[:start])[:MEMBERS_AT_ONCE]

    def _take_events(self) -> None:
        """Under the lock: by that, both threads may read the monitor."""
        while True:
            try:
                first, _ = self._monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            event, descriptor = _EVENT.unpack(first)
            if event == _LISTENING:
                self._listener = own_socket(descriptor)
                continue
            self._end(descriptor)
            if event == _ACCEPTED:
                self._serial += 1
                self._watched[descriptor] = _Watched(account=Account(address="", serial=self._serial))

    def _look(self, descriptor: int, watched: _Watched) -> None:
        if watched.socket is None:
            try:
                watched.socket = own_socket(descriptor)
                watched.account.address = str(watched.socket.getpeername()[0])
            except OSError:  # it has ended, and its end will be told; its descriptor may be something else by now
                return
        count_received(watched.account, watched.socket)

    def _end(self, descriptor: int) -> None:
        watched = self._watched.pop(descriptor, None)
        if watched is None:
            return
        if watched.socket is not None:
            count_received(watched.account, watched.socket)
            watched.socket.close()
        self._remains.gone(watched.account, self._drains)
        for connection in watched.connections:
            self._by_connection.pop(connection, None)

    def _pause_or_resume(self) -> None:
        """Hold new connections off while too much is left of those that have ended."""
        shut = self._remains.is_far_too_much
        if shut == self._is_shut or self._listener is None:
            return
        self._is_shut = shut
        drop_packets(self._listener, drop=shut)
        if shut:
            log.warning(
                "connections.paused", reason="more than can be read came from connections that were not welcomed"
            )

    def _hold(self, watched: _Watched) -> None:
        """Let nothing more come from a member for a while, or let it come again: TCP repeats what was dropped."""
        account = watched.account
        with self._lock:
            hold = must_hold(account)
            if hold != account.is_held and watched.socket is not None:
                account.is_held = hold
                drop_packets(watched.socket, drop=hold)

    def _cut(self, excess: Excess) -> None:
        account = excess.account
        with self._lock:  # nobody else closes its descriptor meanwhile
            watched = next((one for one in self._watched.values() if one.account is account), None)
            if watched is None or account.is_cut:
                return
            account.is_cut = True
            self.cut += 1
            if watched.socket is not None:
                cut(watched.socket)
        log.warning("connection.cut", address=account.address, member=account.is_member, reason=excess.reason)
