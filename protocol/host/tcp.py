"""What Linux's TCP says of a connection beside its library: bytes received, and how to let nothing more come.

ZeroMQ hands over a message only when it is whole, so a guard thread counts what arrived from outside the socket.
Which connection must be cut or held is decided by `protocol.backlog`. Linux and tcp only.
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

from protocol.backlog import Account
from protocol.limits import KIB

_ATTACH_FILTER, _DETACH_FILTER = 26, 27
_DROP_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0)
"""Linux's SO_ATTACH_FILTER, SO_DETACH_FILTER, and the shortest filter: return 0, which is to drop the packet."""
_TCP_INFO_BYTES = 136
_RECEIVED_AT = 128
"""Where `tcpi_bytes_received` stands in Linux's `struct tcp_info`, since 4.1."""


def can_guard(endpoint: str) -> bool:
    """Whether connections at this address can be watched."""
    return sys.platform == "linux" and endpoint.startswith("tcp://")


def own_socket(descriptor: int) -> socket.socket:
    """A descriptor of ours for the same connection: the library's may be closed and reused any time. OSError where it
    is none."""
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def count_received(account: Account, connection: socket.socket) -> None:
    """Bring the account's count up to date. What is still in the kernel has cost the library nothing; it is asked for
    only where it matters, and after the total, so that the difference is never too large."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        taken = struct.unpack_from("=Q", info, _RECEIVED_AT)[0]
        if taken - account.read_bytes > KIB:
            taken -= struct.unpack("=i", fcntl.ioctl(connection, termios.FIONREAD, bytes(4)))[0]
    except (OSError, struct.error):  # closed meanwhile, or a kernel without this count
        return
    account.taken = taken


def drop_packets(connection: socket.socket, *, drop: bool) -> None:
    """Let nothing more come for a while, or let it come again: TCP repeats what was dropped. For a socket that listens,
    this keeps newcomers waiting. Nothing happens to one that has ended by itself."""
    with contextlib.suppress(OSError):
        if not drop:
            connection.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
            return
        program = ctypes.create_string_buffer(_DROP_ALL)
        connection.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("@HP", 1, ctypes.addressof(program)))


def cut(connection: socket.socket) -> None:
    """End a connection, both ways; its library notices by itself. One that was held is let go afterwards: what its peer
    repeats is answered with a reset, where it would wait for a word that got lost."""
    with contextlib.suppress(OSError):  # it has ended already
        connection.shutdown(socket.SHUT_RDWR)
    drop_packets(connection, drop=False)
