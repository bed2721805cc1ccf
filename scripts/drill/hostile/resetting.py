"""A relay that resets: real peers, with or without keys, connect through it, and their connections end with RST.

For attacks by the holder of a listed key: a real client does the encryption, the relay disturbs its connection. It
counts bytes and does not know what they mean.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

from scripts.drill.hostile.zmtp import address_of

_CHUNK = 65_536
_QUIET_S = 0.2
"""A direction that accepts nothing for this long is full."""


class ResettingRelay:
    """Listens while the block lasts; resets every connection to `upstream` once `after_bytes` have passed, or as soon
    as it accepts no more."""

    def __init__(self, upstream: str, *, after_bytes: int) -> None:
        self._upstream = address_of(upstream)
        self._after = after_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.2)
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.resets = 0
        """Connections reset so far."""

    def __enter__(self) -> ResettingRelay:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in list(self._threads):
            thread.join()
        self._listener.close()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            try:
                server = socket.create_connection(self._upstream, timeout=5.0)
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.settimeout(_QUIET_S)
            self._start(self._back, client, server)
            self._start(self._forth, client, server)

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        """Relay towards the victim until it is full or enough has passed; then reset."""
        passed = 0
        with contextlib.suppress(OSError):  # including TimeoutError: the victim accepts no more
            while passed < self._after and not self._stopping.is_set():
                try:
                    chunk = client.recv(_CHUNK)
                except TimeoutError:
                    continue
                if not chunk:
                    break
                server.sendall(chunk)
                passed += len(chunk)
        for end in (server, client):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()
        with self._lock:
            self.resets += 1

    def _back(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not self._stopping.is_set():
                try:
                    chunk = server.recv(_CHUNK)
                except TimeoutError:
                    continue
                if not chunk:
                    return
                client.sendall(chunk)
