"""DICOM and NIfTI files as scanners and converters write them, made with pydicom and nibabel from made-up values."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import UID, ExplicitVRLittleEndian, generate_uid

CT_IMAGE = UID("1.2.840.10008.5.1.4.1.1.2")


def write_dicom(path: Path, stored: NDArray[np.generic], *, patient: str | None = "P1", **attributes: object) -> Path:
    """A file with the given stored values, (H, W), (frames, H, W) or (H, W, 3); attributes by keyword over a CT's."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CT_IMAGE
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    header = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    header.SOPClassUID, header.SOPInstanceUID = CT_IMAGE, meta.MediaStorageSOPInstanceUID
    header.StudyInstanceUID, header.SeriesInstanceUID = generate_uid(), generate_uid()
    header.PatientName, header.Modality = "Doe^Jane", "CT"
    if patient is not None:
        header.PatientID = patient
    colour = stored.ndim == 3 and stored.shape[-1] == 3
    frames = stored.shape[0] if stored.ndim == 3 and not colour else 1
    header.Rows, header.Columns = stored.shape[-3:-1] if colour else stored.shape[-2:]
    header.SamplesPerPixel = 3 if colour else 1
    header.PhotometricInterpretation = "RGB" if colour else "MONOCHROME2"
    if colour:
        header.PlanarConfiguration = 0
    if frames > 1:
        header.NumberOfFrames = frames
    bits = 8 * stored.dtype.itemsize
    header.BitsAllocated, header.BitsStored, header.HighBit = bits, bits, bits - 1
    header.PixelRepresentation = int(stored.dtype.kind == "i")
    header.PixelData = stored.tobytes()
    for name, value in attributes.items():
        setattr(header, name, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    header.save_as(path, enforce_file_format=True)
    return path


def item(**attributes: object) -> Sequence:
    """A sequence of one item."""
    made = Dataset()
    for name, value in attributes.items():
        setattr(made, name, value)
    return Sequence([made])


def write_nifti(path: Path, values: NDArray[np.float32], affine: NDArray[np.float64] | None = None) -> Path:
    """A volume (or a series of them); without an affine its axes run to the right, to the front and up (RAS)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = nibabel.Nifti1Image(values, np.eye(4) if affine is None else affine)  # type: ignore[no-untyped-call]
    nibabel.save(image, path)
    return path
