"""Measures the product's sockets alone: slices from a participant's line to a coordinator's socket.

No byte is hashed, verified or stored; the receiver drops every slice and confirms it, and a window of slices is in
flight, as in a real transfer. The difference to a raw socket is the cost of ZeroMQ and its Python binding.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from multiprocessing.connection import Connection

from coordinator.wire.router import Router
from participant.wire.line import Address, Context, Line
from protocol.limits import SLICE_BYTES, WINDOW_SLICES
from protocol.naming import cut
from scripts.bench.light_peers import PATIENCE_S
from scripts.run.forked import FORK, signals_held, unwind_on_sigterm

_PATIENCE_MS = int(PATIENCE_S * 1000)


class BareLine:
    """A process with the coordinator's socket. Connected later, because nothing may fork after that."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        pipe, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_serve, args=(theirs,))
        with signals_held():
            process.start()
        stack.callback(process.join)
        stack.callback(process.kill)
        theirs.close()
        with pipe:
            if not pipe.poll(PATIENCE_S):
                raise RuntimeError("the socket's process does not answer")
            self._endpoint = pipe.recv_bytes().decode()

    def connect(self) -> None:
        context = Context()
        self._stack.callback(context.term)
        self._line = Line(context, Address(endpoint=self._endpoint))
        self._stack.callback(self._line.close)
        while not self._line.is_up:
            if not self._line.monitor.poll(_PATIENCE_MS) or self._line.read_monitor() is not None:
                raise RuntimeError("no connection")
        self._line.send([b"hello"])  # makes it trusted with slices
        if not self._line.socket.poll(_PATIENCE_MS) or self._line.receive() is None:
            raise RuntimeError("the receiver is gone")

    def send(self, data: memoryview) -> float:
        """Return seconds until every slice has been received and dropped."""
        began = time.perf_counter()
        slices, under_way = list(cut(data, SLICE_BYTES)), 0
        while slices or under_way:
            while slices and under_way < WINDOW_SLICES and self._line.send([b"slice", slices[0]]):
                del slices[0]
                under_way += 1
            if not self._line.socket.poll(_PATIENCE_MS):
                raise RuntimeError("the receiver is gone")
            while self._line.receive() is not None:
                under_way -= 1
        return time.perf_counter() - began


def _serve(parent: Connection) -> None:
    unwind_on_sigterm()
    router = Router(endpoint="tcp://127.0.0.1:*", admits=lambda _key: True)
    parent.send_bytes(router.endpoint.encode())
    while True:
        router.wait(None)
        for received in router.received(WINDOW_SLICES):
            router.trust(received.connection)
            router.send(received.connection, [b"receipt"])
