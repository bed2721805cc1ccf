"""Measures the minimum cost of moving bytes over loopback: one TCP connection, one process at each end, nothing else.

Optionally with the duties that a federation needs, cumulatively: hashing (XXH3 at both ends), a file that holds the
bytes, and fsync.
"""

from __future__ import annotations

import enum
import os
import socket
import time
from pathlib import Path
from types import TracebackType

import xxhash

from scripts.run.forked import FORK, signals_held, unwind_on_sigterm

_RECEIPT = b"!"


class Duty(enum.IntEnum):
    """What is done besides moving bytes; each duty includes those before it."""

    NONE = 0
    HASHED = 1
    FILED = 2
    FORCED = 3


class RawSocket:
    """A process that repeatedly receives so many bytes and confirms them. It ends with the `with` block.

    file: where they are stored, if that is a duty; overwritten every time, which is cheapest.
    """

    def __init__(self, size_bytes: int, duty: Duty = Duty.NONE, file: Path | None = None) -> None:
        self._duty = duty
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._process = FORK.Process(target=_take, args=(listener, size_bytes, duty, file or Path(os.devnull)))
            with signals_held():
                self._process.start()
            self._socket = socket.create_connection(listener.getsockname())

    def send(self, data: memoryview) -> float:
        """Return seconds until all data have arrived."""
        began = time.perf_counter()
        if self._duty >= Duty.HASHED:
            xxhash.xxh3_128_hexdigest(data)
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


def _take(listener: socket.socket, size_bytes: int, duty: Duty, path: Path) -> None:
    unwind_on_sigterm()
    connection, _ = listener.accept()
    listener.close()
    buffer = memoryview(bytearray(b"\1" * size_bytes))  # written to, so that its pages exist before the clock runs
    with connection, path.open("r+b" if path.exists() else "w+b", buffering=0) as file:
        while _took(connection, buffer, duty, file.fileno()):
            connection.sendall(_RECEIPT)


def _took(connection: socket.socket, buffer: memoryview, duty: Duty, handle: int) -> bool:
    """Fill the buffer once; False if the connection has ended."""
    done, digest = 0, xxhash.xxh3_128()
    while done < buffer.nbytes:
        came = connection.recv_into(buffer[done:])
        if came == 0:
            return False
        if duty >= Duty.HASHED:
            digest.update(buffer[done : done + came])
        if duty >= Duty.FILED:
            os.pwrite(handle, buffer[done : done + came], done)
        done += came
    if duty >= Duty.FORCED:
        os.fsync(handle)
    return True
