"""Damages a file of a run's folder, as disks and people do: flips a bit, cuts off the end, deletes the file.

Which file and which byte follow from the fault's seed and from the existing files.
"""

from __future__ import annotations

from pathlib import Path

from coordinator.record.journal import JOURNAL
from fedap_core.randomness import generator
from scripts.drill.faults import Damage
from scripts.drill.site import RUN


def damage(folder: Path, fault: Damage) -> str | None:
    """Damage a file and return what was done, None if there is nothing to damage yet."""
    rng = generator(fault.seed, purpose="damage")
    files = _files(folder, fault)
    if not files:
        return None
    path = files[int(rng.integers(len(files)))]
    size = path.stat().st_size
    if fault.how == "delete":
        for one in files if fault.place == "journal" else [path]:
            one.unlink()
        return f"deleted {path.name}"
    at = int(rng.integers(size))
    if fault.how == "cut":
        with path.open("r+b") as file:
            file.truncate(at)
        return f"cut {path.name} at byte {at} of {size}"
    with path.open("r+b") as file:
        file.seek(at)
        (value,) = file.read(1)
        file.seek(at)
        file.write(bytes([value ^ (1 << int(rng.integers(8)))]))
    return f"changed a bit of {path.name} in byte {at} of {size}"


def is_damageable(folder: Path, fault: Damage) -> bool:
    """Whether such a file exists yet."""
    return bool(_files(folder, fault))


def _files(folder: Path, fault: Damage) -> list[Path]:
    if fault.place == "journal":
        return _journal(folder)
    return _blobs(folder / "blobs") if fault.place == "blob" else _blobs(folder / "state" / RUN)


def _journal(folder: Path) -> list[Path]:
    """Return the journal and SQLite's files beside it."""
    return [
        path for path in sorted(folder.glob(f"{JOURNAL}*")) if not path.name.endswith("-shm") and path.stat().st_size
    ]


def _blobs(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("[!.]*")) if path.is_file() and path.stat().st_size]
