"""Reads `traffic.jsonl`: bytes on the wire by member, round and direction, one line for each round that closes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from fedap_core.errors import InvalidInput

TRAFFIC = "traffic.jsonl"
_FIX = "Move the file away: the run does not need it."

K = TypeVar("K")


class TrafficCounts(Generic[K]):
    """Adds up bytes as the file grows; an incomplete last line is read once it is complete.

    key: by what; takes the round that closed, the member, the round that the bytes belong to, and `in` or `out`.
    """

    def __init__(self, folder: Path, key: Callable[[int, str, int, str], K]) -> None:
        self.counted: Counter[K] = Counter()
        self._path = folder / TRAFFIC
        self._key = key
        self._offset = self._lines = 0

    def read(self, *, strict: bool = False) -> None:
        """Read what was appended; start over if the file has become shorter. strict: refuse a damaged line, such as a
        full disk leaves, instead of skipping it."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self._offset:
                self._offset = self._lines = 0
                self.counted.clear()
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self._lines += 1
                try:
                    self._take(line)
                except (ValueError, KeyError, TypeError) as error:
                    if strict:
                        place = f"{self._path}, line {self._lines}"
                        raise InvalidInput(place, "fields of another kind", "bytes by member", _FIX) from error

    def _take(self, line: bytes) -> None:
        found = json.loads(line)
        for member, round_no, way, size in found["bytes"]:
            self.counted[self._key(found.get("closed_round", 0), member, round_no, way)] += size
