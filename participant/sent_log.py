"""`sent.jsonl`: the participant's own record of everything that left its machine, one line a message.

Written before a message is handed to the socket, so that nothing leaves unrecorded; a line that breaks at that moment
leaves a record of what never arrived. Time, kind, bytes, the names of its tensors, the SHA-256 of its frames. A slice
has its payload's name and its place there instead: its bytes are not digested a second time, and the name finds faults,
it proves nothing. The message that offered the payload has its line, too, with the names of its tensors.
A file that has become large is put aside as `sent-000001.jsonl` and so on; nothing of the record is ever deleted here.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from protocol.codec import frame_sizes
from protocol.contracts import Buffer
from protocol.messages import Message, Slice
from protocol.tensors import TensorSet

FILE_BYTES = 64 << 20
"""Beyond this a new file is begun: some hundred thousand messages, and still a file that an editor opens."""


class SentLog:
    """Appends line by line, past all buffers, so that a killed process has recorded what it sent."""

    def __init__(self, path: Path, *, file_bytes: int = FILE_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file_bytes = file_bytes
        self._open()

    def _open(self) -> None:
        self._file = self._path.open("ab", buffering=0)
        self._written = self._path.stat().st_size

    def _put_aside(self) -> None:
        self._file.close()
        earlier = [int(path.stem.rpartition("-")[2]) for path in self._path.parent.glob(f"{self._path.stem}-*.jsonl")]
        number = max(earlier, default=0) + 1
        self._path.rename(self._path.with_name(f"{self._path.stem}-{number:06d}{self._path.suffix}"))
        self._open()

    def note(self, message: Message, frames: Sequence[Buffer]) -> None:
        """Record one message that is about to leave. OSError: it is not recorded, and must stay."""
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
        if self._written and self._written + len(text) > self._file_bytes:
            self._put_aside()
        written = self._file.write(text)
        self._written += written
        if written < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def close(self) -> None:
        self._file.close()


def _digest(frames: Sequence[Buffer]) -> str:
    digest = hashlib.sha256()
    for frame in frames:
        digest.update(frame)
    return digest.hexdigest()


def tensor_names(message: Message) -> list[str]:
    """The names of all tensors in a message or offered by it."""
    values = (getattr(message, name) for name, _ in message.CONTRACTS)
    return [spec.name for value in values if isinstance(value, TensorSet) for spec in value.layout.specs]
