"""What a participant has released under differential privacy, kept across runs, and the secret of its noise.

`privacy.json` in the state folder lists every release; it is on disk before anything is sent. `noise-secret` keys the
noise: the same question gets the same answer after a crash, which costs nothing, and nobody else can draw that noise.
Deleting either file forgets what was spent: a backup of the state folder holds both.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from fedap_core.arrays import FloatArray
from fedap_core.errors import InvalidInput
from participant.record.disk import Disk
from participant.record.private_state import PrivateState, replace_text

LEDGER = "privacy.json"
SECRET = "noise-secret"  # noqa: S105
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class PrivateRelease:
    """One set of numbers that left. what: statistics or update. query: digest of everything that determined the
    question. noise_multiplier: standard deviation over sensitivity. unit: what was protected. at: UTC, ISO 8601."""

    what: str
    run: str
    round_no: int
    query: str
    noise_multiplier: float
    unit: str
    units: int
    at: str


class PrivacyLedger:
    """The releases of one state folder. Its lock is the state's: one process at a time."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    @classmethod
    def of(cls, state: PrivateState) -> PrivacyLedger:
        """The ledger of a participant's folder."""
        return cls(state.folder, state.disk)

    @property
    def releases(self) -> tuple[PrivateRelease, ...]:
        """All of them, from disk: statistics and updates are charged through ledgers of their own."""
        return self._read()

    def find(self, query: str) -> PrivateRelease | None:
        """The release that answered this very question, if it was asked before."""
        return next((one for one in self.releases if one.query == query), None)

    def spent(self, what: str) -> tuple[float, ...]:
        """Noise multipliers of all releases of one kind."""
        return tuple(one.noise_multiplier for one in self.releases if one.what == what)

    def add(self, release: PrivateRelease) -> None:
        """Durable when it returns."""
        releases = (*self.releases, release)
        text = json.dumps({"format": _FORMAT, "releases": [asdict(one) for one in releases]}, indent=1) + "\n"
        self._disk.patiently(LEDGER, lambda: replace_text(self._folder / LEDGER, text, mode=0o600))

    def noise(self, query: str, size: int) -> FloatArray:
        """(size,) standard normal numbers that only this folder's secret and the question determine."""
        key = hmac.new(bytes.fromhex(self._secret()), query.encode(), hashlib.sha256).digest()
        return gaussian(key, size)

    def _secret(self) -> str:
        path = self._folder / SECRET
        if not path.is_file():
            made = secrets.token_hex(32)
            self._disk.patiently(SECRET, lambda: replace_text(path, made + "\n", mode=0o600))
        found = path.read_text(encoding="ascii", errors="replace").strip()
        if len(found) != 64 or set(found) - set("0123456789abcdef"):
            raise InvalidInput("state", path, "64 hex digits", "Restore it from a backup: earlier noise depends on it.")
        return found

    def _read(self) -> tuple[PrivateRelease, ...]:
        path = self._folder / LEDGER
        if not path.is_file():
            return ()
        try:
            described = json.loads(path.read_text(encoding="utf-8"))
            if described["format"] != _FORMAT:
                raise ValueError(f"format {described['format']}")
            return tuple(PrivateRelease(**one) for one in described["releases"])
        except (KeyError, TypeError, ValueError) as error:
            fix = "Restore it from a backup: it counts what was spent."
            raise InvalidInput("state", path, "a privacy ledger of this program", f"{fix} ({error})") from error


def gaussian(key: bytes, size: int) -> FloatArray:
    """(size,) standard normal numbers out of SHAKE-256: whoever lacks the key cannot predict them."""
    pairs = (size + 1) // 2
    words = np.frombuffer(hashlib.shake_256(key).digest(16 * pairs), dtype="<u8") >> np.uint64(11)
    first, second = (words.reshape(2, pairs).astype(np.float64) + 0.5) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log(first))
    both = np.concatenate((radius * np.cos(2 * np.pi * second), radius * np.sin(2 * np.pi * second)))
    return np.asarray(both[:size], dtype=np.float64)
