"""Watches the coordinator's traffic from outside the socket: pauses it if it is too fast, disconnects if a message does
not end.

A socket gives a message to nobody before it is whole and puts no limit on its frames, so one that never ends would take
all memory. One thread for all lines of the process asks TCP how many bytes came in; `protocol.backlog` decides. A line
that is cut is lost like any other: the participant connects again. Linux and tcp alone.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterable

import structlog

from protocol.backlog import Account, BacklogLimits, UnreadRemains, excesses, must_hold, wire_bytes
from protocol.host.tcp import count_received, cut, drop_packets, own_socket

log = structlog.get_logger()

LOOK_S = 0.05
"""Between two looks: what a coordinator can send meanwhile comes on top of the bound."""

IDLE_LOOK_S = 1.0
"""The same while nothing comes in: the kernel ends this pause when something does. A thread that wakes up more often
disturbs the training."""

_BOUNDS = BacklogLimits(strangers=1)


class WatchedConnection:
    """One connection, by a descriptor of our own. `heard` and `drained` are its socket's thread's."""

    def __init__(self, connection: socket.socket, *, encrypted: bool) -> None:
        self.socket = connection
        self.account = Account(address=str(connection.getpeername()[0]), serial=0, is_member=True)
        self.drains = 0
        self._encrypted = encrypted

    def received(self, sizes: Iterable[int]) -> None:
        """A message was taken from the socket."""
        self.account.read(wire_bytes(sizes, encrypted=self._encrypted))

    def drained(self) -> None:
        """The socket was seen empty."""
        self.drains += 1

    def look(self) -> bool:
        """Bring the count up to date and cut the connection if it is due. Whether the next look is due soon, too."""
        account = self.account
        taken = account.taken
        count_received(account, self.socket)
        for excess in excesses([account], _BOUNDS, UnreadRemains(), now=time.monotonic(), drains=self.drains):
            account.is_cut = True
            cut(self.socket)
            log.warning("connection.cut", address=account.address, reason=excess.reason)
        if (hold := must_hold(account)) != account.is_held:
            account.is_held = hold
            drop_packets(self.socket, drop=hold)
        return account.taken != taken or account.mark is not None or account.is_held


class Sentry:
    """The lines of a process that are watched, and the thread that does it while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: list[WatchedConnection] = []
        self._arrivals: select.epoll | None = None
        """Unlike poll, it keeps no connection open that was closed meanwhile."""
        self._never = threading.Event()

    def watch(self, descriptor: int, *, encrypted: bool) -> WatchedConnection | None:
        """Begin with a connection that the library calls by this descriptor; None where it is gone already."""
        try:
            watched = WatchedConnection(own_socket(descriptor), encrypted=encrypted)
        except OSError:
            return None
        with self._lock:
            self._watched.append(watched)
            if self._arrivals is None:
                self._arrivals = select.epoll()
                threading.Thread(target=self._run, args=(self._arrivals,), name="guard", daemon=True).start()
            self._arrivals.register(watched.socket, select.EPOLLIN)
        return watched

    def let_go(self, watched: WatchedConnection) -> None:
        """End with it: our descriptor would keep the connection open."""
        with self._lock:
            self._watched.remove(watched)
            if self._arrivals is not None:
                self._arrivals.unregister(watched.socket)
            watched.socket.close()

    def _run(self, arrivals: select.epoll) -> None:
        while True:
            with self._lock:
                if not self._watched:
                    self._arrivals = None
                    arrivals.close()
                    return
                is_busy = sum(watched.look() for watched in self._watched) > 0  # every one is looked at
            if not is_busy:
                arrivals.poll(IDLE_LOOK_S)
            self._never.wait(LOOK_S)
