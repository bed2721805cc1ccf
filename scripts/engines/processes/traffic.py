"""Reads bytes on the wire per member and round from the lines that the coordinator writes as rounds close."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

_WAYS = {"up": "in", "down": "out"}
"""Direction as seen by a participant -> as seen by the coordinator."""


class TrafficReader:
    """Reads the file incrementally; an incomplete last line is read once it is complete."""

    def __init__(self, path: Path, members: Sequence[str]) -> None:
        self._path = path
        self._members = members
        self._offset = 0
        self._counted: Counter[tuple[str, int, str]] = Counter()

    def of(self, round_no: int, *, last: bool) -> dict[str, list[int]]:
        """Return bytes of a round by direction, in the order of members. last: including everything after it."""
        self._read_on()
        rounds = {number for _, number, _ in self._counted if number == round_no or (last and number > round_no)}
        return {
            way: [sum(self._counted[member, number, theirs] for number in rounds) for member in self._members]
            for way, theirs in _WAYS.items()
        }

    def _read_on(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                for member, number, way, size in json.loads(line)["bytes"]:
                    self._counted[member, number, way] += size
