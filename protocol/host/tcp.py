"""Reads Linux's TCP counters of a connection besides the socket library, and blocks or cuts the connection.

ZeroMQ delivers a message only when it is complete, so a guard thread counts received bytes from outside the library.
`protocol.backlog` decides which connections to cut or hold. Linux and tcp only.
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
from collections.abc import Iterator

from protocol.backlog import Account
from protocol.limits import KIB

_ATTACH_FILTER, _DETACH_FILTER = 26, 27
_DROP_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0)
"""Linux's SO_ATTACH_FILTER, SO_DETACH_FILTER, and the shortest filter: return 0, which drops the packet."""
_TCP_HEADER_BYTES = 60
_TCP_INFO_BYTES = 136
_RECEIVED_AT = 128
"""Offset of `tcpi_bytes_received` in Linux's `struct tcp_info`, since 4.1."""
_RECEIVED = struct.Struct("=Q")
_MEMINFO, _MEMINFO_BYTES, _DROPS_AT = 55, 36, 32
"""Linux's SO_MEMINFO, since 4.12, and the offset of its count of dropped packets."""


def can_guard(endpoint: str) -> bool:
    """Whether connections at this address can be watched."""
    return sys.platform == "linux" and endpoint.startswith("tcp://")


def own_socket(descriptor: int) -> socket.socket:
    """Duplicate the descriptor of a connection: the library's may be closed and reused at any time. OSError if it is
    not a socket."""
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


@contextlib.contextmanager
def borrowed_socket(descriptor: int) -> Iterator[socket.socket]:
    """Yield a connection by the library's own descriptor, for a moment. OSError if it is not a socket."""
    connection = socket.socket(fileno=descriptor)
    try:
        yield connection
    finally:
        connection.detach()


def count_received(account: Account, connection: socket.socket) -> None:
    """Update the account's count. Bytes still in the kernel cost the library nothing and are subtracted; they are read
    only if it matters, and after the total, so that the difference is never too large."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        taken = _RECEIVED.unpack_from(info, _RECEIVED_AT)[0]
        if taken - account.read_bytes > KIB:
            taken -= struct.unpack("=i", fcntl.ioctl(connection, termios.FIONREAD, bytes(4)))[0]
    except (OSError, struct.error):  # closed meanwhile, or a kernel without this count
        return
    account.taken = taken


def count_dropped(account: Account, connection: socket.socket) -> None:
    """Update the account's count of dropped packets."""
    with contextlib.suppress(OSError, struct.error):  # closed meanwhile, or a kernel without this count
        info = connection.getsockopt(socket.SOL_SOCKET, _MEMINFO, _MEMINFO_BYTES)
        account.dropped = struct.unpack_from("=I", info, _DROPS_AT)[0]


def drop_packets(connection: socket.socket, *, drop: bool) -> None:
    """Drop all incoming packets, or stop dropping them; TCP retransmits what was dropped. On a listening socket, this
    keeps newcomers waiting. No effect on a connection that has already ended."""
    if drop:
        _filter(connection, _DROP_ALL)
    else:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)


def drop_large_packets(connection: socket.socket, largest_bytes: int) -> None:
    """Drop incoming packets with more payload than that, until `drop_packets(drop=False)`. Connections that a listening
    socket accepts inherit this, from their first packet on."""
    program = (
        struct.pack("=HBBI", 0x80, 0, 0, 0)  # load the length of the packet without its IP header
        + struct.pack("=HBBI", 0x25, 0, 1, largest_bytes + _TCP_HEADER_BYTES)  # if it is not greater: skip the next
        + _DROP_ALL
        + struct.pack("=HBBI", 0x06, 0, 0, 0x7FFFFFFF)  # keep all of it
    )
    _filter(connection, program)


def _filter(connection: socket.socket, program: bytes) -> None:
    code = ctypes.create_string_buffer(program)
    fields = struct.pack("@HP", len(program) // len(_DROP_ALL), ctypes.addressof(code))
    with contextlib.suppress(OSError):  # it has ended already
        connection.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, fields)


def cut(connection: socket.socket) -> None:
    """Shut down a connection in both directions; the library notices by itself. A held connection is released
    afterwards, so that retransmissions are answered with a reset; otherwise the peer would keep waiting."""
    with contextlib.suppress(OSError):  # it has ended already
        connection.shutdown(socket.SHUT_RDWR)
    drop_packets(connection, drop=False)
