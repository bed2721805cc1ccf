"""Paediatric chest X-rays (Kermany et al.), 64x64 grey, read from `chest_xray_64.npz`; a group is a patient.

Many patients have several images, some with both kinds of pneumonia: images of one patient must stay together.
"""

from __future__ import annotations

import numpy as np

from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import IMAGE_8BIT
from participant.data.archive import read_archive
from participant.data.base import DataOptions, Dataset

FILE_NAME = "chest_xray_64.npz"
CLASSES = ("normal", "bacterial", "viral")
_SIZE = 64
_FIX = "Set FEDAP_DATA or the data root to the folder that holds it."


def load(options: DataOptions) -> Dataset:
    """(n, 1, 64, 64) uint8 with three classes."""
    options.require_known("chest")
    path = options.folder / FILE_NAME
    archive = read_archive(path, names=("x", "y", "patient"), fix=_FIX)
    images = archive.array("x", shape=(None, _SIZE, _SIZE))
    if images.dtype != np.uint8:
        raise InvalidInput(f"{path}: x", f"dtype {images.dtype}", "uint8")
    return Dataset(
        name="chest",
        x=images.astype(np.uint8, copy=False)[:, None],
        y=archive.integers("y", shape=(len(images),)),
        classes=CLASSES,
        group=archive.integers("patient", shape=(len(images),)),
        preprocessing=IMAGE_8BIT,
    )
