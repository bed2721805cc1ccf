"""Watches what the coordinator sends from outside the socket; holds what comes too fast, ends what has no end.

A socket gives a message to nobody before it is whole and puts no limit on its frames, so one that never ends would take
all memory. One thread for all lines of the process asks TCP how many bytes came in; `protocol.backlog` decides. A line
that is cut is lost like any other: the participant connects again. Linux and tcp alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterable

import structlog

from protocol.backlog import Account, Bounds, Unheard, excesses, must_hold, wire_bytes
from protocol.limits import KIB

log = structlog.get_logger()

LOOK_S = 0.05
"""Between two looks: what a coordinator can send meanwhile comes on top of the bound."""

_BOUNDS = Bounds(strangers=1)
_ATTACH_FILTER, _DETACH_FILTER = 26, 27
_DROP_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0)
"""Linux's SO_ATTACH_FILTER, SO_DETACH_FILTER, and the shortest filter: return 0, which is to drop the packet."""
_TCP_INFO_BYTES = 136
_RECEIVED_AT = 128
"""Where `tcpi_bytes_received` stands in Linux's `struct tcp_info`, since 4.1."""


def can_guard(endpoint: str) -> bool:
    """Whether connections to this address can be watched."""
    return sys.platform == "linux" and endpoint.startswith("tcp://")


class Watched:
    """One connection, by a descriptor of our own. `heard` and `drained` are its socket's thread's."""

    def __init__(self, connection: socket.socket, *, encrypted: bool) -> None:
        self.socket = connection
        self.account = Account(address=str(connection.getpeername()[0]), serial=0, is_member=True)
        self.drains = 0
        self._encrypted = encrypted

    def heard(self, sizes: Iterable[int]) -> None:
        """A message was taken from the socket."""
        self.account.heard += wire_bytes(sizes, encrypted=self._encrypted)

    def drained(self) -> None:
        """The socket was seen empty."""
        self.drains += 1

    def look(self) -> None:
        """Bring the count up to date and cut the connection if it is due."""
        account = self.account
        try:
            info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            taken = struct.unpack_from("=Q", info, _RECEIVED_AT)[0]
            if taken - account.heard > KIB:
                taken -= struct.unpack("=i", fcntl.ioctl(self.socket, termios.FIONREAD, bytes(4)))[0]
        except (OSError, struct.error):  # a kernel without this count
            return
        account.taken = taken
        for excess in excesses([account], _BOUNDS, Unheard(), now=time.monotonic(), drains=self.drains):
            account.is_cut = True
            with contextlib.suppress(OSError):  # it has ended by itself
                self.socket.shutdown(socket.SHUT_RDWR)
            log.warning("connection.cut", address=account.address, reason=excess.reason)
        if (hold := must_hold(account)) != account.is_held:
            account.is_held = hold
            with contextlib.suppress(OSError):
                self._drop_packets(drop=hold)

    def _drop_packets(self, *, drop: bool) -> None:
        """Let nothing more come for a while, or let it come again: TCP repeats what was dropped."""
        if not drop:
            self.socket.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
            return
        program = ctypes.create_string_buffer(_DROP_ALL)
        self.socket.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("@HP", 1, ctypes.addressof(program)))


class Sentry:
    """The lines of a process that are watched, and the thread that does it while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: list[Watched] = []
        self._thread: threading.Thread | None = None
        self._never = threading.Event()

    def watch(self, descriptor: int, *, encrypted: bool) -> Watched | None:
        """Begin with a connection that the library calls by this descriptor; None where it is gone already."""
        try:
            copy = os.dup(descriptor)
        except OSError:
            return None
        try:
            watched = Watched(socket.socket(fileno=copy), encrypted=encrypted)
        except OSError:
            os.close(copy)
            return None
        with self._lock:
            self._watched.append(watched)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="guard", daemon=True)
                self._thread.start()
        return watched

    def let_go(self, watched: Watched) -> None:
        """End with it: our descriptor would keep the connection open."""
        with self._lock:
            self._watched.remove(watched)
            watched.socket.close()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
                for watched in self._watched:
                    watched.look()
            self._never.wait(LOOK_S)
