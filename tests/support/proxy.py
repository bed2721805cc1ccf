"""The drill's proxy, which the tests of broken networks use, too; and one that keeps what passes."""

from __future__ import annotations

import socket
from typing import Any

from scripts.drill.proxy import Cut, Fault, Hold, Overtake, Proxy, Swallow, Twin

__all__ = ["Cut", "Fault", "Hold", "Overtake", "Proxy", "Recorder", "Swallow", "Twin"]


class Recorder(Proxy):
    """Keeps every byte that passes, each direction of each connection in order."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self._passed: dict[tuple[int, bool], bytearray] = {}

    def _carry(self, line: Any, target: socket.socket | None, chunk: bytes) -> None:  # noqa: ANN401 - the proxy's own
        self._passed.setdefault((id(line), target is line.client), bytearray()).extend(chunk)
        super()._carry(line, target, chunk)

    @property
    def passed(self) -> list[bytes]:
        return [bytes(stream) for stream in list(self._passed.values())]
