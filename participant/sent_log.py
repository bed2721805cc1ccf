"""`sent.jsonl`: the participant's own record of everything that left its machine, one line a message.

Written as a message is handed to the socket: time, kind, bytes, the names of its tensors, the SHA-256 of its frames.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from protocol.codec import frame_sizes
from protocol.contracts import Buffer
from protocol.messages import Message, Slice
from protocol.tensors import TensorSet


class SentLog:
    """Appends; flushed line by line, so that a killed process has recorded what it sent."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def note(self, message: Message, frames: Sequence[Buffer]) -> None:
        """Record one message as it leaves."""
        digest = hashlib.sha256()
        for frame in frames:
            digest.update(frame)
        line: dict[str, object] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "kind": message.KIND,
            "bytes": sum(frame_sizes(frames)),
            "names": tensor_names(message),
            "hash": digest.hexdigest(),
        }
        if hasattr(message, "round_no"):
            line["round"] = message.round_no
        if isinstance(message, Slice):
            line |= {"transfer": message.transfer, "offset": message.offset}
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        self._file.close()


def tensor_names(message: Message) -> list[str]:
    """The names of all tensors in a message or offered by it."""
    values = (getattr(message, name) for name, _ in message.CONTRACTS)
    return [spec.name for value in values if isinstance(value, TensorSet) for spec in value.layout.specs]
