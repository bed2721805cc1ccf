"""Watch the coordinator's traffic from outside the socket: pause it if it is too fast, disconnect if a message does
not end.

ZeroMQ delivers a message only when it is complete and does not limit its number of frames, so an endless message would
use up all memory. One thread for all lines of the process asks TCP how many bytes came in; `protocol.backlog` decides.
The participant reconnects after a disconnection, as after any lost line. Linux and TCP only.
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

CHECK_INTERVAL_S = 0.05
"""Interval between two checks: the bytes a coordinator sends in between come on top of the bound."""

IDLE_LOOK_S = 1.0
"""The same while nothing arrives: the kernel ends this pause when something does. A thread that wakes up more often
slows down training."""

_BOUNDS = BacklogLimits(strangers=1)


class WatchedConnection:
    """One connection, through a duplicate descriptor. The socket's thread calls `received` and `drained`."""

    def __init__(self, connection: socket.socket, *, encrypted: bool) -> None:
        self.socket = connection
        self.account = Account(address=str(connection.getpeername()[0]), serial=0, is_member=True)
        self.drains = 0
        self._encrypted = encrypted

    def received(self, sizes: Iterable[int]) -> None:
        """Count a message that was read from the socket."""
        self.account.read(wire_bytes(sizes, encrypted=self._encrypted))

    def drained(self) -> None:
        """Note that the socket was empty."""
        self.drains += 1

    def check(self) -> bool:
        """Update the byte count, and pause or cut the connection if needed. Return whether to check again soon."""
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


class TrafficMonitor:
    """The watched lines of a process, and the thread that watches them while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: list[WatchedConnection] = []
        self._arrivals: select.epoll | None = None
        """Unlike poll, epoll does not keep a connection open that was closed in the meantime."""
        self._never = threading.Event()

    def watch(self, descriptor: int, *, encrypted: bool) -> WatchedConnection | None:
        """Start watching the connection with this ZeroMQ descriptor; None if it is already gone."""
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

    def release(self, watched: WatchedConnection) -> None:
        """Stop watching: our descriptor would keep the connection open."""
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
                is_busy = sum(watched.check() for watched in self._watched) > 0  # sum, not any: check every one
            if not is_busy:
                arrivals.poll(IDLE_LOOK_S)
            self._never.wait(CHECK_INTERVAL_S)
