"""Implements ZMTP 3.0 with the NULL mechanism only: enough to be accepted as a peer and then send arbitrary bytes.

https://rfc.zeromq.org/spec/23: greeting, READY command, then frames of a flag byte, a size and a body. Does not know
what the frames mean to this project; `floods` decides what to do with a connection.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence

MORE = 0x01
LARGE = 0x02
COMMAND = 0x04

PATIENCE_S = 10.0
"""Longest wait for a peer's greeting."""


def greeting(mechanism: bytes = b"NULL", *, as_server: bool = False) -> bytes:
    """Return the 64 bytes with which both sides start."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x00" + mechanism.ljust(20, b"\0") + bytes([as_server]) + bytes(31)


def frame(body: bytes, *, more: bool = False, command: bool = False) -> bytes:
    """Return one frame's bytes on the wire."""
    flags = (MORE if more else 0) | (COMMAND if command else 0)
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | LARGE]) + struct.pack(">Q", len(body)) + body


def message(frames: Sequence[bytes]) -> bytes:
    """Return all frames of a message; all but the last are flagged that more follow."""
    return b"".join(frame(body, more=number + 1 < len(frames)) for number, body in enumerate(frames))


def ready(kind: bytes) -> bytes:
    """Return the command that ends a NULL handshake. kind: DEALER or ROUTER."""
    values = ((b"Socket-Type", kind), (b"Identity", b""))
    metadata = b"".join(bytes([len(name)]) + name + struct.pack(">I", len(value)) + value for name, value in values)
    return frame(b"\x05READY" + metadata, command=True)


def address_of(endpoint: str) -> tuple[str, int]:
    """Convert tcp://host:port into a socket address."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return host.strip("[]"), int(port)


class RawPeer:
    """One TCP connection of ours. `handshake` makes it a ZMTP peer; before that it is only a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.socket.settimeout(PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what is sent at once is one packet

    @classmethod
    def connected(cls, endpoint: str) -> RawPeer:
        return cls(socket.create_connection(address_of(endpoint), timeout=PATIENCE_S))

    def handshake(self, kind: bytes = b"DEALER") -> None:
        """Exchange greeting and READY; raises OSError if the other side does not."""
        self.socket.sendall(greeting())
        self._exactly(64)
        self.socket.sendall(ready(kind))
        flags, size = self._exactly(2)
        if flags & LARGE:
            size = int.from_bytes(bytes([size]) + self._exactly(7))
        self._exactly(size)

    def send(self, wire: bytes) -> None:
        self.socket.sendall(wire)

    def send_all(self, messages: Iterable[Sequence[bytes]]) -> int:
        """Send messages until all are sent or the connection breaks; returns how many were sent."""
        sent = 0
        try:
            for one in messages:
                self.socket.sendall(message(one))
                sent += 1
        except OSError:  # the other side closed, or stopped reading
            return sent
        return sent

    def reset(self) -> None:
        """Close with RST instead of FIN: unread data is lost, and the other side gets an error."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self.socket.recv(size - len(found))
            if not piece:
                raise ConnectionResetError("closed during the handshake")
            found += piece
        return found


class RawListener:
    """A port that real peers connect to. `accept` returns the next one, after a ROUTER's handshake."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.2)
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"

    def accept(self) -> RawPeer | None:
        """Return the next peer; None if nobody connected for a moment or the handshake failed."""
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            return None
        peer = RawPeer(connection)
        try:
            peer.handshake(b"ROUTER")
        except OSError:
            peer.close()
            return None
        return peer

    def close(self) -> None:
        self._listener.close()
