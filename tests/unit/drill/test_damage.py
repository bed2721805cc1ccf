"""Claims about damaged files: one file, as the seed says, and nothing where there is nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from coordinator.record.journal import JOURNAL
from scripts.drill.damage import damage, is_damageable
from scripts.drill.faults import Damage

How = Literal["flip", "cut", "delete"]


def fault(how: How, place: Literal["blob", "journal"] = "blob", seed: int = 3) -> Damage:
    return Damage(party="coordinator", at=0.5, pause_s=0.0, place=place, how=how, seed=seed)


def folder_with_files(base: Path) -> Path:
    blobs = base / "blobs" / "update" / "0000000"
    blobs.mkdir(parents=True)
    for name in ("a", "b"):
        (blobs / name).write_bytes(bytes(100))
    (base / JOURNAL).write_bytes(bytes(200))
    return base


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", ["flip", "cut", "delete"])
@pytest.mark.parametrize("place", ["blob", "journal"])
def test_exactly_one_file_is_damaged(tmp_path: Path, how: How, place: Literal["blob", "journal"]) -> None:
    folder = folder_with_files(tmp_path)
    before = contents(folder)
    assert damage(folder, fault(how, place)) is not None
    after = contents(folder)
    changed = [name for name, data in before.items() if after.get(name) != data]
    assert len(changed) == 1
    assert changed[0].startswith("blobs" if place == "blob" else JOURNAL)
    if how == "flip":
        differing = [
            one ^ other for one, other in zip(before[changed[0]], after[changed[0]], strict=True) if one != other
        ]
        assert [bin(one).count("1") for one in differing] == [1]


def test_an_empty_folder_cannot_be_damaged(tmp_path: Path) -> None:
    assert not is_damageable(tmp_path, fault("cut"))
    assert damage(tmp_path, fault("cut")) is None
