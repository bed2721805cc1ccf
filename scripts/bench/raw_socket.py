"""The least that moving bytes over loopback can cost: one TCP connection, one process at each end, nothing else.

Or with one thing more, which no transfer that names and verifies its content can do without: SHA-256 at both ends.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import socket
import time
from types import TracebackType

from scripts.engines.forked import signals_held, unwind_on_sigterm

_FORK = multiprocessing.get_context("fork")
_RECEIPT = b"!"


class RawSocket:
    """A process that takes so many bytes into memory and says so, again and again. Ended with the `with` block."""

    def __init__(self, size_bytes: int, *, hashed: bool = False) -> None:
        self._hashed = hashed
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._process = _FORK.Process(target=_take, args=(listener, size_bytes, hashed))
            with signals_held():
                self._process.start()
            self._socket = socket.create_connection(listener.getsockname())

    def send(self, data: memoryview) -> float:
        """Seconds until all of it has arrived."""
        began = time.perf_counter()
        if self._hashed:
            hashlib.sha256(data).hexdigest()
        self._socket.sendall(data)
        if self._socket.recv(1) != _RECEIPT:
            raise RuntimeError("the receiver is gone")
        return time.perf_counter() - began

    def __enter__(self) -> RawSocket:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._process.join()


def _take(listener: socket.socket, size_bytes: int, hashed: bool) -> None:
    unwind_on_sigterm()
    connection, _ = listener.accept()
    listener.close()
    buffer = memoryview(bytearray(b"\1" * size_bytes))  # touched: its pages are there before the clock runs
    with connection:
        while True:
            done, digest = 0, hashlib.sha256()
            while done < size_bytes:
                came = connection.recv_into(buffer[done:])
                if came == 0:
                    return
                if hashed:
                    digest.update(buffer[done : done + came])
                done += came
            connection.sendall(_RECEIPT)
