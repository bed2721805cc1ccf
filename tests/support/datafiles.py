"""Small files in the publishers' exact formats, for tests of the data sources, and the place of the real files.

Values are made up and seeded; shapes, dtypes, names and column orders are those of the originals.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

REPOSITORY = Path(__file__).resolve().parents[2]


def real_data(file_name: str) -> Path:
    """The folder that holds a real file: FEDAP_DATA, else ../shared/data beside the repository; skips when absent."""
    folder = Path(os.environ.get("FEDAP_DATA") or REPOSITORY.parent / "shared" / "data")
    if not (folder / file_name).is_file():
        pytest.skip(f"{file_name} is not in {folder}: set FEDAP_DATA to the folder that holds it")
    return folder


def write_medmnist(path: Path, *, counts: Sequence[int], size: int, channels: int, classes: int, seed: int = 0) -> None:
    """`{train,val,test}_images` uint8 (n, size, size[, 3]) and `{train,val,test}_labels` uint8 (n, 1)."""
    rng = np.random.default_rng(seed)
    tail = (size, size) if channels == 1 else (size, size, channels)
    arrays: dict[str, NDArray[np.uint8]] = {}
    for split, count in zip(("train", "val", "test"), counts, strict=True):
        arrays[f"{split}_images"] = rng.integers(0, 256, (count, *tail), dtype=np.uint8)
        arrays[f"{split}_labels"] = rng.integers(0, classes, (count, 1), dtype=np.uint8)
    np.savez_compressed(path, allow_pickle=False, **arrays)


def write_har(path: Path, *, chains: Sequence[tuple[int, int, int]], seed: int = 0) -> NDArray[np.int64]:
    """Chains of (subject, label, windows) cut from made-up recordings and shuffled; returns each window's chain."""
    rng = np.random.default_rng(seed)
    x, y, subject, chain = [], [], [], []
    for number, (who, label, windows) in enumerate(chains):
        signal = rng.standard_normal((9, 64 * (windows + 1))).astype(np.float16)
        x += [signal[:, 64 * at : 64 * at + 128] for at in range(windows)]
        y += [label] * windows
        subject += [who] * windows
        chain += [number] * windows
    order = rng.permutation(len(x))
    np.savez_compressed(
        path,
        allow_pickle=False,
        x=np.stack(x)[order],
        y=np.array(y, dtype=np.uint8)[order],
        subject=np.array(subject, dtype=np.uint8)[order],
    )
    return np.array(chain, dtype=np.int64)[order]


def write_chest(path: Path, *, labels: Sequence[int], patients: Sequence[int]) -> None:
    """x uint8 (n, 64, 64), y uint8, patient int32."""
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 64, 64), dtype=np.uint8)
    np.savez_compressed(
        path,
        allow_pickle=False,
        x=images,
        y=np.array(labels, dtype=np.uint8),
        patient=np.array(patients, dtype=np.int32),
    )


def pamap2_rows(*, activity: int, start_s: float, rows: int, seed: int = 0) -> NDArray[np.float64]:
    """(rows, 54) at 100 Hz: time stamp, activity, heart rate (mostly NaN), three units of 17 columns."""
    table = np.random.default_rng(seed).standard_normal((rows, 54))
    table[:, 0] = start_s + np.arange(rows) / 100
    table[:, 1] = activity
    table[:, 2] = np.where(np.arange(rows) % 11 == 0, 104.0, np.nan)
    return table


def write_pamap2(root: Path, subjects: Mapping[str, NDArray[np.float64]]) -> Path:
    """`PAMAP2_Dataset/Protocol/subject10X.dat`: blanks between columns, NaN for what is missing."""
    protocol = root / "PAMAP2_Dataset" / "Protocol"
    protocol.mkdir(parents=True)
    for name, table in subjects.items():
        lines = []
        for row in table:
            values = ["NaN" if np.isnan(value) else f"{value:.6g}" for value in row[2:]]
            lines.append(" ".join([f"{row[0]:.2f}", f"{int(row[1])}", *values]))
        (protocol / f"{name}.dat").write_text("\n".join(lines) + "\n", encoding="ascii")
    return protocol


def write_image(path: Path, *, size: tuple[int, int] = (20, 16), mode: str = "L", value: int = 100) -> None:
    """One image file of a single shade; `size` is (width, height)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = value if mode in ("L", "I;16", "P") else (value,) * len(mode)
    Image.new(mode, size, colour).save(path)


def write_covid(root: Path, *, per_class: int = 2) -> Path:
    """The publisher's four folders with images of different sizes, JPEG and PNG, grey and colour."""
    base = root / "Curated X-Ray Dataset"
    for shade, name in enumerate(("COVID-19", "Normal", "Pneumonia-Bacterial", "Pneumonia-Viral")):
        for number in range(per_class):
            suffix, mode = (("jpg", "RGB"), ("png", "L"))[number % 2]
            path = base / name / f"{name} ({number + 1}).{suffix}"
            write_image(path, size=(30 + 10 * number, 40), mode=mode, value=50 * shade + 25)
    return base


def truncate(path: Path, *, keep: float = 0.5) -> None:
    """Cut a file, as an interrupted copy does."""
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


def flip_member_bytes(path: Path) -> None:
    """Damage the stored bytes of an archive's largest member while its directory stays intact."""
    with zipfile.ZipFile(path) as archive:
        member = max(archive.infolist(), key=lambda info: info.compress_size)
    content = bytearray(path.read_bytes())
    middle = member.header_offset + member.compress_size // 2
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(bytes(content))
