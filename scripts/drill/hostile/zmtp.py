"""ZMTP 3.0 by hand, the NULL mechanism alone: enough to be taken for a peer and then to send whatever bytes one likes.

https://rfc.zeromq.org/spec/23: greeting, READY command, then frames of a flag byte, a size and a body. Knows nothing of
what the frames mean to this project; what to do with a connection is `floods`'.
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
    """The 64 bytes that both sides begin with."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x00" + mechanism.ljust(20, b"\0") + bytes([as_server]) + bytes(31)


def frame(body: bytes, *, more: bool = False, command: bool = False) -> bytes:
    """One frame as it lies on the wire."""
    flags = (MORE if more else 0) | (COMMAND if command else 0)
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | LARGE]) + struct.pack(">Q", len(body)) + body


def message(frames: Sequence[bytes]) -> bytes:
    """All frames of a message: all but the last say that more follow."""
    return b"".join(frame(body, more=number + 1 < len(frames)) for number, body in enumerate(frames))


def ready(kind: bytes) -> bytes:
    """The command that ends a NULL handshake. kind: DEALER or ROUTER."""
    values = ((b"Socket-Type", kind), (b"Identity", b""))
    metadata = b"".join(bytes([len(name)]) + name + struct.pack(">I", len(value)) + value for name, value in values)
    return frame(b"\x05READY" + metadata, command=True)


def address_of(endpoint: str) -> tuple[str, int]:
    """tcp://host:port as sockets want it."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return host.strip("[]"), int(port)


class RawPeer:
    """One TCP connection of ours. `handshake` makes it a peer; before that it is only somebody who connected."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.socket.settimeout(PATIENCE_S)

    @classmethod
    def connected(cls, endpoint: str) -> RawPeer:
        return cls(socket.create_connection(address_of(endpoint), timeout=PATIENCE_S))

    def handshake(self, kind: bytes = b"DEALER") -> None:
        """Greeting and READY, both ways; OSError when the other side does not play along."""
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
        """Messages one after the other until they are out or the line breaks; returns how many left."""
        sent = 0
        try:
            for one in messages:
                self.socket.sendall(message(one))
                sent += 1
        except OSError:  # the other side had enough, or takes nothing any more
            return sent
        return sent

    def reset(self) -> None:
        """End with RST instead of FIN: what the other side has not read is lost, and it hears of an error."""
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
    """A port that real peers connect to. `accept` gives the next one, greeted as a ROUTER would."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.2)
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"

    def accept(self) -> RawPeer | None:
        """The next peer; None when nobody came for a moment or the handshake failed."""
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
