"""Watches every connection of the socket from outside and cuts those with more unread bytes than an honest peer sends.

Runs in its own thread: the socket's monitor reports accepted descriptors, TCP the bytes received on each, and the
socket's thread what it has read (`received`) and which connections are members' (`trust`). `protocol.backlog` decides.
A cut only ends the TCP connection: the library frees its memory, and an honest peer simply reconnects. A member with
many unread bytes is held instead: its packets are dropped until these have been read, and TCP retransmits them. Large
packets of strangers are dropped by the kernel, which needs no thread to be scheduled. While ended connections have left
too much unread, connection attempts are dropped as well; an honest peer's kernel repeats them. Linux and tcp only;
elsewhere there is no guard, and the socket's queue limits take its place.
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
from functools import partial

import structlog
import zmq

from protocol.backlog import (
    CHECK_MS,
    HANDSHAKE_BYTES,
    STRANGER_PACKET_BYTES,
    Account,
    BacklogLimits,
    Excess,
    UnreadRemains,
    excesses,
    is_inconspicuous,
    must_hold,
    next_check_ms,
    wire_bytes,
)
from protocol.host.tcp import (
    borrowed_socket,
    count_dropped,
    count_received,
    cut,
    drop_large_packets,
    drop_packets,
    own_socket,
)

log = structlog.get_logger()

MEMBERS_AT_ONCE = 100
"""Members checked each time, in turn; strangers are checked every time."""

_MONITOR = "inproc://fedap.guard"
_ACCEPTED, _ENDED, _LISTENING = int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_DISCONNECTED), int(zmq.EVENT_LISTENING)
_EVENT = struct.Struct("=Hi")
_READABLE = int(zmq.POLLIN)


@dataclass(kw_only=True, eq=False)
class _Watched:
    """A connection and our own descriptor of it: the library's may be closed and reused at any time. Ours is created at
    the first check: a connection that ends between two checks costs nothing."""

    account: Account
    descriptor: int
    socket: socket.socket | None = None
    connections: list[str] = field(default_factory=list)


class ConnectionGuard:
    """The guard of one socket. `received`, `trust`, `forget`, `ignores`, `drained` and `close` are for the socket's
    thread. Close it before the socket."""

    def __init__(
        self,
        router: zmq.Socket[bytes],
        *,
        bounds: BacklogLimits,
        accepted: Callable[[str], int] | None,
        wake: Callable[[], None],
    ) -> None:
        """accepted: returns how many handshakes of an address were accepted (`UnreadRemains`); None on a socket without
        keys. wake: makes the socket's thread read the socket, which no other thread may."""
        self._router, self._bounds, self._wake = router, bounds, wake
        self._encrypted = accepted is not None
        router.monitor(_MONITOR, _ACCEPTED | _ENDED | _LISTENING)
        self._monitor = router.context.socket(zmq.PAIR)
        self._monitor.rcvhwm = 0  # if this queue were full, the library would block all of its connections
        self._monitor.linger = 0
        self._monitor.connect(_MONITOR)
        self._monitor_fd = self._monitor.fd
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        """The latest connection with each of the library's descriptors."""
        self._by_connection: dict[str, _Watched] = {}
        self._remains = UnreadRemains(accepted)
        self._listener: socket.socket | None = None
        self._is_shut = False
        self._trusted: set[str] = set()
        """Members' connections: their last messages are read even after they have ended."""
        self._serial = 0
        self._drains = 0
        self._turn = 0
        self.cut = 0
        """Connections cut so far."""
        self._is_closing = False
        self._is_asleep = False
        """Whether the guard's thread waits without a timeout, because nobody is connected."""
        self._alarm_read, self._alarm_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)
        self._thread.start()

    # ---- the socket's thread

    def received(self, connection: str, last: zmq.Frame, sizes: Iterable[int]) -> None:
        """Count a message that was read. last: its last frame, which knows its descriptor."""
        size_bytes = wire_bytes(sizes, encrypted=self._encrypted)
        watched = self._by_connection.get(connection)
        if watched is not None:
            watched.account.read(size_bytes)
        elif (watched := self._link(connection, last)) is not None:
            watched.account.read_bytes += size_bytes  # may be of an ended connection, so it does not count as `largest`

    def drained(self) -> None:
        """Note that the socket was seen empty: every complete message has been read."""
        self._drains += 1

    def trust(self, connection: str) -> None:
        """Mark a connection as a member's for as long as it lasts, even if the member says hello on another one."""
        self._trusted.add(connection)
        watched = self._by_connection.get(connection)
        if watched is not None and not watched.account.is_member:
            watched.account.is_member = True
            with self._lock:
                self._apply(watched, partial(drop_packets, drop=False))

    def forget(self, connection: str) -> None:
        """Note that a connection is no longer a member's."""
        self._trusted.discard(connection)

    def ignores(self, connection: str) -> bool:
        """Whether to discard a message unread: a stranger's, while new connections are held off. That empties the
        socket sooner, and an honest stranger sends its hello again."""
        return self._is_shut and connection not in self._trusted

    def unread_members(self) -> int | None:
        """Return how many connections had messages in the socket at their last check, except for messages as small as a
        handshake; None if one of the connections is not a member's: it may wait for an answer."""
        with self._lock:
            accounts = [watched.account for watched in self._watched.values()]
        if not all(account.is_member for account in accounts):
            return None
        return sum(account.waiting > HANDSHAKE_BYTES for account in accounts)

    def close(self) -> None:
        """Release every connection. The monitor is disabled first: an unread queue would block the library."""
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
        """Make the guard's thread check now."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full: it will check anyway
            os.write(self._alarm_write, b"\0")

    def _link(self, connection: str, last: zmq.Frame) -> _Watched | None:
        """Find the connection of a message. It was accepted before its message was read, so it is the latest one with
        the descriptor; if it has ended and another has the descriptor by now, that one is credited with a little too
        much. Monitor events read here do not wake the guard's thread, which may wait without a timeout: alarm it."""
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
            if self._is_asleep:  # otherwise it checks soon, and not just between a hello and its welcome
                self._alarm()
        return watched

    # ---- the guard's thread

    def _run(self) -> None:
        # Poll the monitor's descriptor, not the monitor: zmq.Poller would use the socket without the lock, and two
        # threads inside one ZeroMQ socket corrupt its memory. The descriptor signals only changes, and none before the
        # queue was first seen empty: so it is emptied once before the first poll, and `_take_events` always reads to
        # the end.
        with self._lock:
            self._take_events()
        poller = select.poll()
        poller.register(self._monitor_fd, select.POLLIN)
        poller.register(self._alarm_read, select.POLLIN)
        pause_ms = CHECK_MS
        while True:
            with self._lock:
                self._is_asleep = not (self._watched or self._remains or self._is_shut)
            if self._alarm_read in dict(poller.poll(None if self._is_asleep else pause_ms)):
                os.read(self._alarm_read, 4096)
            self._is_asleep = False
            if self._is_closing:
                return
            began = time.monotonic()
            with self._lock:
                self._take_events()
                checked = self._next_to_check()
                for watched in checked:
                    if (connection := self._own(watched)) is not None:
                        count_received(watched.account, connection)
                        if not watched.account.is_member:
                            count_dropped(watched.account, connection)
            conspicuous = [one for one in checked if not is_inconspicuous(one.account, self._bounds)]
            accounts = [watched.account for watched in conspicuous]
            now, drains = time.monotonic(), self._drains
            for excess in excesses(accounts, self._bounds, self._remains, now=now, drains=drains):
                self._cut(excess)
            for watched in conspicuous:
                self._hold(watched)
            self._pause_or_resume()
            if self._remains or any(account.mark is not None for account in accounts):
                self._wake()
            pause_ms = next_check_ms(accounts, began=began, ended=time.monotonic())

    def _next_to_check(self) -> list[_Watched]:
        if len(self._watched) <= MEMBERS_AT_ONCE:
            return list(self._watched.values())
        strangers = [one for one in self._watched.values() if not one.account.is_member]
        members = [one for one in self._watched.values() if one.account.is_member]
        start = self._turn = (self._turn + MEMBERS_AT_ONCE) % len(members) if len(members) > MEMBERS_AT_ONCE else 0
        return strangers + (members[start:] + members[:start])[:MEMBERS_AT_ONCE]

    def _take_events(self) -> None:
        """Handle the monitor's events; call with the lock held, because both threads read the monitor."""
        while self._monitor.get(zmq.EVENTS) & _READABLE:  # cheaper than the exception of an empty queue
            first, _ = self._monitor.recv_multipart(zmq.NOBLOCK)
            event, descriptor = _EVENT.unpack(first)
            if event == _LISTENING:
                self._listener = own_socket(descriptor)
                drop_large_packets(self._listener, STRANGER_PACKET_BYTES)
                continue
            self._end(descriptor)
            if event == _ACCEPTED:
                self._serial += 1
                self._watched[descriptor] = _Watched(
                    account=Account(address="", serial=self._serial, since=time.monotonic()), descriptor=descriptor
                )

    def _own(self, watched: _Watched) -> socket.socket | None:
        """Return our own descriptor of a connection; None if it has ended. Call with the lock held."""
        if watched.socket is None:
            try:
                watched.socket = own_socket(watched.descriptor)
                watched.account.address = str(watched.socket.getpeername()[0])
            except OSError:  # it has ended, an event will follow; its descriptor may be something else by now
                return None
        return watched.socket

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
        """Hold off new connections while ended ones have left too much unread."""
        shut = self._remains.is_far_too_much
        if shut == self._is_shut or self._listener is None:
            return
        self._is_shut = shut
        if shut:
            drop_packets(self._listener, drop=True)
            log.warning("connections.paused", reason="connections that were not admitted sent more than can be read")
        else:
            drop_large_packets(self._listener, STRANGER_PACKET_BYTES)

    def _hold(self, watched: _Watched) -> None:
        """Drop a member's packets for a while, or stop dropping them; TCP retransmits what was dropped."""
        account = watched.account
        with self._lock:
            hold = must_hold(account)
            if hold != account.is_held and watched.socket is not None:
                account.is_held = hold
                drop_packets(watched.socket, drop=hold)

    def _cut(self, excess: Excess) -> None:
        account = excess.account
        with self._lock:
            watched = next((one for one in self._watched.values() if one.account is account), None)
            if watched is None or account.is_cut:
                return
            account.is_cut = True
            self.cut += 1
            self._apply(watched, cut)
        log.warning("connection.cut", address=account.address, member=account.is_member, reason=excess.reason)

    def _apply(self, watched: _Watched, change: Callable[[socket.socket], None]) -> None:
        """Change a connection that has not ended, as far as the monitor told. Call with the lock held, so that its
        descriptor is not closed meanwhile."""
        if self._watched.get(watched.descriptor) is not watched:
            return
        if (own := self._own(watched)) is not None:
            change(own)
        else:  # no descriptor was left for our own; the library's serves, or too many connections would stay
            with contextlib.suppress(OSError), borrowed_socket(watched.descriptor) as connection:
                change(connection)
