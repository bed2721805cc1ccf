"""A network that fails on purpose: a TCP proxy on this machine, between real participants and a real coordinator.

Faults strike by counts of forwarded bytes, one after the other, never by the clock: a cut of every connection, lines
that go half open, or a pause that lasts until the test ends it. It knows nothing of what the bytes mean.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

_CHUNK = 16_384


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Close every connection as soon as `after` more bytes have passed, both directions together."""

    after: int


@dataclass(frozen=True, kw_only=True)
class Swallow:
    """Every connection stays open and delivers nothing more; so do the next `newcomers`, which are accepted."""

    after: int
    newcomers: int = 0


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Nothing passes until `release`; then everything does, late but whole."""

    after: int


Fault = Cut | Swallow | Hold


class _Line:
    """Two sockets that belong together. deaf: read from both, deliver to neither."""

    def __init__(self, client: socket.socket, server: socket.socket | None) -> None:
        self.client, self.server = client, server
        self.deaf = server is None

    def close(self) -> None:
        for end in (self.client, self.server):
            if end is None:
                continue
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:  # its other side was faster
                continue


class Proxy:
    """Listens while the block lasts. `upstream` and `endpoint` are written tcp://127.0.0.1:port."""

    def __init__(self, upstream: str, faults: Sequence[Fault] = ()) -> None:
        host, _, port = upstream.removeprefix("tcp://").rpartition(":")
        self._upstream = (host, int(port))
        self._faults = deque(faults)
        self._lock = threading.Lock()
        self._passing = threading.Event()
        self._passing.set()
        self._since = 0
        self._deaf_newcomers = 0
        self._lines: list[_Line] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.forwarded = 0
        """Bytes delivered so far, both directions."""
        self.accepted = 0
        """Connections taken so far."""
        self.struck = threading.Event()
        """Set when the last fault has struck."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Proxy:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            lines = list(self._lines)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._passing.set()
        for line in lines:
            line.close()
        for thread in list(self._threads):
            thread.join()
        self._listener.close()

    def release(self) -> None:
        """End a `Hold`."""
        self._passing.set()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # shut down: the block is over
                return
            with self._lock:
                deaf, self._deaf_newcomers = self._deaf_newcomers > 0, max(self._deaf_newcomers - 1, 0)
            try:
                server = None if deaf else socket.create_connection(self._upstream)
            except OSError:  # the coordinator is gone: so is this line
                client.close()
                continue
            line = _Line(client, server)
            with self._lock:
                self.accepted += 1
                self._lines.append(line)
                closed = self._closed
            if closed:
                line.close()
            self._start(self._pump, line, client, server)
            if server is not None:
                self._start(self._pump, line, server, client)

    def _pump(self, line: _Line, source: socket.socket, target: socket.socket | None) -> None:
        """Carry bytes one way until either side ends."""
        try:
            while chunk := source.recv(_CHUNK):
                self._carry(line, target, chunk)
        except OSError:  # cut, by us or by them
            pass
        line.close()
        source.close()

    def _carry(self, line: _Line, target: socket.socket | None, chunk: bytes) -> None:
        rest = chunk
        while rest:
            self._passing.wait()
            with self._lock:
                if line.deaf or target is None:
                    return
                fault = self._faults[0] if self._faults else None
                room = len(rest) if fault is None else max(fault.after - self._since, 0)
                head, rest = rest[:room], rest[room:]
                self._since += len(head)
                self.forwarded += len(head)
                strikes = fault is not None and self._since >= fault.after
                if fault is not None and strikes:
                    self._faults.popleft()
                    self._since = 0
                    if not isinstance(fault, Cut):
                        self._change(fault)
            if head:
                target.sendall(head)
            if fault is not None and strikes:
                self._finish(fault)
                if isinstance(fault, Cut):
                    raise ConnectionAbortedError

    def _change(self, fault: Swallow | Hold) -> None:
        if isinstance(fault, Hold):
            self._passing.clear()
            return
        self._deaf_newcomers = fault.newcomers
        for line in self._lines:
            line.deaf = True

    def _finish(self, fault: Fault) -> None:
        """What follows once the bytes before the fault are on their way."""
        if isinstance(fault, Cut):
            with self._lock:
                lines, self._lines = self._lines, []
            for line in lines:
                line.close()
        if not self._faults:
            self.struck.set()
