"""`sent.jsonl`: the participant's record of everything it sent, one line per message.

The line is written before the message is passed to the socket, so that nothing is sent unrecorded; if the connection
breaks at that moment, the record has a message that never arrived. A line has time, kind, bytes, tensor names and the
SHA-256 of the frames. For a slice it has the payload's name and the offset instead: the bytes are not hashed a second
time, and the name detects errors but proves nothing. The message that offered the payload has its own line, with the
tensor names.
A large file is rotated to `sent-000001.jsonl` and so on; the record is never deleted here. On a full disk, signs of
life are recorded in reserved space (`sent.reserve`) and moved to `sent.jsonl` once there is space again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import structlog

from protocol.codec import frame_sizes
from protocol.contracts import Buffer
from protocol.messages import Heartbeat, Hello, Leave, Message, Slice
from protocol.tensors import TensorSet

log = structlog.get_logger()

FILE_BYTES = 64 << 20
"""Size at which a new file is started: a few hundred thousand messages, and still a file that an editor opens."""


RESERVE_BYTES = 256 << 10
"""Reserved space: some 1,500 heartbeats, or four hours of a full disk at one every ten seconds."""

_SIGNS_OF_LIFE = (Hello, Heartbeat, Leave)


class SentLog:
    """Appends line by line, unbuffered, so that even a killed process has recorded everything it sent."""

    def __init__(self, path: Path, *, file_bytes: int = FILE_BYTES, reserve_bytes: int = RESERVE_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file_bytes = file_bytes
        self._open()
        self._reserve = Reserve(path.with_suffix(".reserve"), reserve_bytes)

    @staticmethod
    def has_room_set_aside(message: Message) -> bool:
        """Whether a message may be sent even when the disk is full: it only shows that the participant is running."""
        return isinstance(message, _SIGNS_OF_LIFE)

    @property
    def is_on_reserve(self) -> bool:
        """Whether the latest lines are in the reserved space."""
        return self._reserve.used > 0

    def _open(self) -> None:
        self._file = self._path.open("ab", buffering=0)
        self._written = self._path.stat().st_size

    def _put_aside(self) -> None:
        earlier = [int(path.stem.rpartition("-")[2]) for path in self._path.parent.glob(f"{self._path.stem}-*.jsonl")]
        number = max(earlier, default=0) + 1
        full, aside = self._file, self._path.with_name(f"{self._path.stem}-{number:06d}{self._path.suffix}")
        self._path.rename(aside)
        try:
            self._open()
        except OSError:  # even an empty file is impossible: keep the old one
            aside.rename(self._path)
            raise
        full.close()

    def note(self, message: Message, frames: Sequence[Buffer]) -> None:
        """Record a message that is about to be sent. OSError: it is not recorded and must not be sent."""
        line: dict[str, object] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "kind": message.KIND,
            "bytes": sum(frame_sizes(frames)),
            "names": tensor_names(message),
        }
        if isinstance(message, Slice):
            line |= {"transfer": message.transfer, "offset": message.offset}
        else:
            line["hash"] = _digest(frames)
        if hasattr(message, "round_no"):
            line["round"] = message.round_no
        text = (json.dumps(line) + "\n").encode()
        try:
            if self._reserve.used:
                self._append(self._reserve.content())
                self._reserve.clear()
            self._append(text)
        except OSError:
            if not self.has_room_set_aside(message):
                raise
            self._reserve.add(text)

    def _append(self, text: bytes) -> None:
        """Append whole lines, or nothing."""
        if self._written and self._written + len(text) > self._file_bytes:
            self._put_aside()
        try:
            written = self._file.write(text)
            if written < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        except OSError:
            with suppress(OSError):  # report the first error
                self._file.truncate(self._written)
            raise
        self._written += written

    def close(self) -> None:
        self._file.close()
        self._reserve.close()


class Reserve:
    """A file of fixed size, allocated while there is space and overwritten in place: lines, then zeros."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._file: int | None = None
        self._size = 0
        self.used = 0
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            missing = size - os.fstat(self._file).st_size
            if missing > 0:
                os.pwrite(self._file, bytes(missing), size - missing)
                os.fsync(self._file)
        except OSError as error:
            log.warning(
                "reserve.missing",
                path=str(path),
                reason=str(error),
                effect="messages cannot be recorded on a full disk",
            )
        if self._file is not None:
            self._size = os.fstat(self._file).st_size
            found = os.pread(self._file, self._size, 0).find(b"\0")
            self.used = found if found >= 0 else self._size

    def content(self) -> bytes:
        return b"" if self._file is None else os.pread(self._file, self.used, 0)

    def add(self, text: bytes) -> None:
        """Append a line. OSError when the reserve is full."""
        if self._file is None or self.used + len(text) > self._size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        os.pwrite(self._file, text, self.used)
        self.used += len(text)

    def clear(self) -> None:
        if self._file is not None:
            os.pwrite(self._file, bytes(self.used), 0)
        self.used = 0

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _digest(frames: Sequence[Buffer]) -> str:
    digest = hashlib.sha256()
    for frame in frames:
        digest.update(frame)
    return digest.hexdigest()


def tensor_names(message: Message) -> list[str]:
    """The names of all tensors in a message or offered by it."""
    values = (getattr(message, name) for name, _ in message.CONTRACTS)
    return [spec.name for value in values if isinstance(value, TensorSet) for spec in value.layout.specs]
