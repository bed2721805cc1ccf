"""A TCP proxy that fails on purpose, on this machine, between real participants and a real coordinator.

Faults occur at counts of forwarded bytes, one after the other: a cut of every connection, half-open connections, a
pause, connections whose bytes arrive twice, or later than those of the connections that replace them. It does not know
what the bytes mean.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

_CHUNK = 65_536


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Close every connection as soon as `after` more bytes have passed, both directions together."""

    after: int


@dataclass(frozen=True, kw_only=True)
class Swallow:
    """Every connection stays open but delivers nothing more; the same for the next `newcomers`, which are accepted."""

    after: int
    newcomers: int = 0


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Nothing passes until `release`, or for `for_s`; then everything does, late but complete."""

    after: int
    for_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Twin:
    """Close every connection; data from the next `newcomers` is delivered twice, on two connections, and answers on the
    second one are dropped."""

    after: int
    newcomers: int = 1


@dataclass(frozen=True, kw_only=True)
class Overtake:
    """What comes from every present connection is held back. After `hold_s` its client finds it closed; after `for_s`
    more, what it had said is delivered over the old connection, behind what the client says over the next one."""

    after: int
    hold_s: float
    for_s: float


Fault = Cut | Swallow | Hold | Twin | Overtake


@dataclass(frozen=True, kw_only=True)
class Lag:
    """Every piece waits up to `most_s` before it is delivered; drawn from `seed`."""

    most_s: float
    seed: int


class _Line:
    """Two connected sockets. deaf: read from both, deliver to neither. twin: also receives what the client sends."""

    def __init__(self, client: socket.socket, server: socket.socket | None, twin: socket.socket | None) -> None:
        self.client, self.server, self.twin = client, server, twin
        self.deaf = server is None
        self.held: list[bytes] | None = None
        """What the client has said and is delivered later, once it is held back."""

    def close(self) -> None:
        for end in (self.client, self.server, self.twin):
            if end is None:
                continue
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:  # the other side closed first
                continue


class Proxy:
    """Listens while the block lasts. `upstream` and `endpoint` are written tcp://address:port."""

    def __init__(
        self, upstream: str, faults: Sequence[Fault] = (), *, lag: Lag | None = None, listen: str = "127.0.0.1"
    ) -> None:
        host, _, port = upstream.removeprefix("tcp://").rpartition(":")
        self._upstream = (host, int(port))
        self._faults = deque(faults)
        self._lag = lag
        self._draws = None if lag is None else np.random.default_rng(lag.seed)
        self._lock = threading.Lock()
        self._passing = threading.Event()
        self._passing.set()
        self._held_for_s: float | None = None
        self._since = 0
        self._deaf_newcomers = 0
        self._twin_newcomers = 0
        self._lines: list[_Line] = []
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()
        self.forwarded = 0
        """Bytes delivered so far, both directions."""
        self.accepted = 0
        """Connections accepted so far."""
        self.strikes = 0
        """Faults that have occurred."""
        self.injected = threading.Event()
        """Set when the last fault has occurred."""
        self._listener = socket.create_server((listen, 0))
        self.endpoint = f"tcp://{listen}:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed.set()
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
                twin, self._twin_newcomers = self._twin_newcomers > 0, max(self._twin_newcomers - 1, 0)
            try:
                server = None if deaf else socket.create_connection(self._upstream)
                second = socket.create_connection(self._upstream) if twin and not deaf else None
            except OSError:  # the coordinator is gone, so close this connection
                client.close()
                continue
            self._open(_Line(client, server, second))

    def _open(self, line: _Line) -> None:
        with self._lock:
            self.accepted += 1
            self._lines.append(line)
            closed = self._closed.is_set()
        if closed:
            line.close()
        self._start(self._pump, line, line.client, line.server)
        if line.server is not None:
            self._start(self._pump, line, line.server, line.client)
        if line.twin is not None:
            self._start(_drain, line.twin)

    def _pump(self, line: _Line, source: socket.socket, target: socket.socket | None) -> None:
        """Forward bytes in one direction until either side ends."""
        try:
            while chunk := source.recv(_CHUNK):
                if self._lag is not None:
                    self._closed.wait(self._lag_s())
                self._carry(line, target, chunk)
        except OSError:  # cut, by us or by them
            pass
        if line.held is None:
            line.close()
            source.close()

    def _lag_s(self) -> float:
        with self._lock:
            return 0.0 if self._lag is None or self._draws is None else self._draws.uniform(0.0, self._lag.most_s)

    def _carry(self, line: _Line, target: socket.socket | None, chunk: bytes) -> None:
        rest = chunk
        while rest:
            if not self._passing.wait(self._held_for_s):
                self._passing.set()
            with self._lock:
                if line.deaf or target is None:
                    return
                if line.held is not None and target is line.server:
                    line.held.append(rest)
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
                    self.strikes += 1
                    self._change(fault)
            if head:
                target.sendall(head)
                if line.twin is not None and target is line.server:
                    _repeat(line.twin, head)
            if fault is not None and strikes:
                self._finish(fault)
                if isinstance(fault, Cut | Twin):
                    raise ConnectionAbortedError

    def _change(self, fault: Fault) -> None:
        """Apply the part of a fault that must take effect before the next byte."""
        if isinstance(fault, Hold):
            self._held_for_s = fault.for_s
            self._passing.clear()
        elif isinstance(fault, Twin):
            self._twin_newcomers = fault.newcomers
        elif isinstance(fault, Swallow):
            self._deaf_newcomers = fault.newcomers
            for line in self._lines:
                line.deaf = True
        elif isinstance(fault, Overtake):
            lines, self._lines = self._lines, []
            for line in lines:
                line.held = []
                self._start(self._overtake, line, fault)

    def _overtake(self, line: _Line, fault: Overtake) -> None:
        self._closed.wait(fault.hold_s)
        with contextlib.suppress(OSError):
            line.client.shutdown(socket.SHUT_RDWR)
        self._closed.wait(fault.for_s)
        with self._lock:
            held = line.held or []
        if line.server is not None:
            _repeat(line.server, b"".join(held))
        self._closed.wait(fault.for_s)  # an answer would find nobody
        line.close()
        for end in (line.client, line.server, line.twin):
            if end is not None:
                end.close()

    def _finish(self, fault: Fault) -> None:
        """Apply the rest of a fault once the bytes before it have been sent."""
        if isinstance(fault, Cut | Twin):
            with self._lock:
                lines, self._lines = self._lines, []
            for line in lines:
                line.close()
        if not self._faults:
            self.injected.set()


def _drain(source: socket.socket) -> None:
    """Read and discard everything."""
    try:
        while source.recv(_CHUNK):
            continue
    except OSError:  # cut
        pass
    source.close()


def _repeat(target: socket.socket, data: bytes) -> None:
    """Deliver data a second time; failures are ignored."""
    try:
        target.sendall(data)
    except OSError:
        return
