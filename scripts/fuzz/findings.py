"""Stores findings: the operations on a target that raised an unexpected error, shortened as far as possible.

A finding is JSON: target, seed, episode, starting state, operations and the error. Bytes are hexadecimal. One command
replays it, and every run first replays the findings in its folder.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedap_core.errors import InvalidInput
from scripts.fuzz.targets import FuzzTarget, Operation

MOST_TRIES = 1500
"""Replays allowed to shorten one finding."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What went wrong, and how to reproduce it."""

    target: str
    seed: int
    episode: int
    start: int
    operations: tuple[Operation, ...]
    error: str

    def save(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.target}-{self.seed}-{self.episode}.json"
        plain = {
            "target": self.target,
            "seed": self.seed,
            "episode": self.episode,
            "start": self.start,
            "error": self.error,
            "operations": [_plain(one) for one in self.operations],
        }
        path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> Finding:
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                target=plain["target"],
                seed=plain["seed"],
                episode=plain["episode"],
                start=plain["start"],
                operations=tuple(_tuple(one) for one in plain["operations"]),
                error=plain["error"],
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput("finding", str(path), "a file that `fedap-lab fuzz` has written", str(error)) from error


def fault_of(target: FuzzTarget, start: int, operations: Sequence[Operation]) -> str:
    """Return what these operations raise, and where; empty if nothing."""
    target.begin(start)
    try:
        for operation in operations:
            target.apply(operation)
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        return described(error)
    return ""


def described(error: BaseException) -> str:
    """Describe an error and the place that raised it; equal for the same fault."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "nowhere"
    return f"{type(error).__name__} in {where}: {str(error)[:300]}"


def shortened(target: FuzzTarget, start: int, operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return fewer operations with the same kind of fault: leave out halves, quarters and so on while it persists."""
    wanted = _kind(fault_of(target, start, operations))
    tries = 0

    def fails(some: Sequence[Operation]) -> bool:
        nonlocal tries
        tries += 1
        return tries <= MOST_TRIES and _kind(fault_of(target, start, some)) == wanted

    return _without_parts(tuple(operations), fails)


def _without_parts(kept: tuple[Operation, ...], fails: Callable[[Sequence[Operation]], bool]) -> tuple[Operation, ...]:
    size = max(len(kept) // 2, 1)
    while True:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if fewer and fails(fewer):
                kept = fewer
            else:
                at += size
        if size == 1:
            return kept
        size = max(size // 2, 1)


def _kind(fault: str) -> str:
    return fault.partition(":")[0]


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _tuple(plain: list[object]) -> Operation:
    return tuple(_value(one) for one in plain)


def _value(plain: object) -> object:
    if isinstance(plain, dict):
        return bytes.fromhex(plain["hex"])
    return _tuple(plain) if isinstance(plain, list) else plain
