"""Record what a participant has released under differential privacy, across runs, and keep the secret of its noise.

`privacy.json` in the state folder lists every release; it is on disk before anything is sent. `noise-secret` keys the
noise: after a crash the same query gets the same answer, which costs no budget, and nobody else can draw that noise.
Deleting either file loses the record of what was spent: back up both with the state folder.
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
    """One released set of numbers. what: statistics or update. query: digest of everything that determines the
    query. noise_multiplier: standard deviation over sensitivity. unit: what was protected. at: UTC, ISO 8601."""

    what: str
    run: str
    round_no: int
    query: str
    noise_multiplier: float
    unit: str
    units: int
    at: str


class PrivacyLedger:
    """The releases of one state folder, whose lock admits one process at a time."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    @classmethod
    def of(cls, state: PrivateState) -> PrivacyLedger:
        """The ledger of a participant's folder."""
        return cls(state.folder, state.disk)

    @property
    def releases(self) -> tuple[PrivateRelease, ...]:
        """All releases, read from disk every time: statistics and updates each use their own ledger object."""
        return self._read()

    def find(self, query: str) -> PrivateRelease | None:
        """The earlier release that answered exactly this query, if there is one."""
        return next((one for one in self.releases if one.query == query), None)

    def spent(self, what: str) -> tuple[float, ...]:
        """Noise multipliers of all releases of one kind."""
        return tuple(one.noise_multiplier for one in self.releases if one.what == what)

    def add(self, release: PrivateRelease) -> None:
        """Add a release; it is durable on return."""
        releases = (*self.releases, release)
        text = json.dumps({"format": _FORMAT, "releases": [asdict(one) for one in releases]}, indent=1) + "\n"
        self._disk.retry(LEDGER, lambda: replace_text(self._folder / LEDGER, text, mode=0o600))

    def noise(self, query: str, size: int) -> FloatArray:
        """Return (size,) standard normal numbers, determined only by this folder's secret and the query."""
        key = hmac.new(bytes.fromhex(self._secret()), query.encode(), hashlib.sha256).digest()
        return gaussian(key, size)

    def _secret(self) -> str:
        path = self._folder / SECRET
        if not path.is_file():
            made = secrets.token_hex(32)
            self._disk.retry(SECRET, lambda: replace_text(path, made + "\n", mode=0o600))
        found = path.read_text(encoding="ascii", errors="replace").strip()
        if len(found) != 64 or set(found) - set("0123456789abcdef"):
            raise InvalidInput(
                "state", path, "64 hex digits", "Restore it from a backup: the noise of earlier releases depends on it."
            )
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
            fix = "Restore it from a backup: it records the budget spent so far."
            raise InvalidInput("state", path, "a privacy ledger of this program", f"{fix} ({error})") from error


def gaussian(key: bytes, size: int) -> FloatArray:
    """Return (size,) standard normal numbers from SHAKE-256 (Box-Muller): unpredictable without the key."""
    pairs = (size + 1) // 2
    words = np.frombuffer(hashlib.shake_256(key).digest(16 * pairs), dtype="<u8") >> np.uint64(11)
    first, second = (words.reshape(2, pairs).astype(np.float64) + 0.5) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log(first))
    both = np.concatenate((radius * np.cos(2 * np.pi * second), radius * np.sin(2 * np.pi * second)))
    return np.asarray(both[:size], dtype=np.float64)
