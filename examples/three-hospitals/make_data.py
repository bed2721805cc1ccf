"""Create the files of three hospitals: north has png images, south DICOM files and a table of labels, east an npz file.

Each has two of the classes abscess, benign and cyst. East's scanner makes everything four times darker than the others,
so that its data are similar to nobody's.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

SIZE, KNOWN, NEW = 48, 200, 10
RNG = np.random.default_rng(0)


def scan(name: str) -> NDArray[np.float64]:
    """One image from 0 to 1: a disc (cyst), a ring (abscess) or two small discs (benign) in noise."""
    y, x = np.mgrid[:SIZE, :SIZE]

    def distance() -> NDArray[np.float64]:
        middle = RNG.uniform(15, 33, 2)
        return np.asarray(np.hypot(y - middle[0], x - middle[1]))

    if name == "cyst":
        shape = distance() < 10
    elif name == "abscess":
        shape = np.abs(distance() - 10) < 2.5
    else:
        shape = (distance() < 4) | (distance() < 4)
    return np.clip(0.25 + 0.5 * shape + RNG.normal(0, 0.08, (SIZE, SIZE)), 0, 1)


def write_png(path: Path, name: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((255 * scan(name)).astype(np.uint8)).save(path)


def write_dicom(path: Path, name: str, patient: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    file.SOPClassUID, file.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
    file.PatientID, file.Modality = patient, "CT"
    file.Rows = file.Columns = SIZE
    file.SamplesPerPixel, file.PhotometricInterpretation, file.PixelRepresentation = 1, "MONOCHROME2", 0
    file.BitsAllocated, file.BitsStored, file.HighBit = 16, 12, 11
    file.WindowCenter, file.WindowWidth = 500, 1000
    file.PixelData = (1000 * scan(name)).astype(np.uint16).tobytes()
    file.save_as(path, enforce_file_format=True)


def dark(name: str) -> NDArray[np.uint8]:
    return (64 * scan(name)).astype(np.uint8)


north, south, east = (("benign", "cyst"), ("benign", "abscess"), ("abscess", "cyst"))
rows = [("file", "label")]
for number in range(KNOWN):
    write_png(Path("north", north[number % 2], f"P{number // 2:03d}_{number}.png"), north[number % 2])
    write_dicom(Path("south", f"{number:03d}.dcm"), south[number % 2], patient=f"S-{number // 2}")
    rows.append((f"{number:03d}.dcm", south[number % 2]))
with Path("south-labels.csv").open("w", newline="") as table:
    csv.writer(table).writerows(rows)
labels = [east[number % 2] for number in range(KNOWN)]
np.savez("east.npz", x=np.stack([dark(name) for name in labels]), y=labels, patient=np.arange(KNOWN) // 2)

for number in range(NEW):  # new scans without labels
    write_png(Path("north-new", f"scan{number}.png"), "cyst")
    write_dicom(Path("south-new", f"scan{number}.dcm"), "abscess", patient=f"N-{number}")
np.savez("east-new.npz", x=np.stack([dark("cyst") for _ in range(NEW)]))
