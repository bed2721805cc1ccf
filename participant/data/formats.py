"""Describe the formats of users' own data, with an example each. Decides nothing: the options and their descriptions
come from the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from participant.data import csv_file, dicom, folder, nifti, npz


@dataclass(frozen=True, kw_only=True)
class DataFormat:
    """One format. example: the options after `fedap-participant init`."""

    name: str
    description: str
    example: str
    options: Mapping[str, str]
    extra: str = ""


FORMATS = (
    DataFormat(
        name="Images",
        description="a folder with one sub-folder per class, or with a .csv of labels: png, jpeg, bmp, tiff, pgm, ppm",
        example="--data scans --model lenet5 --data-option size=64 --data-option 'group=(P[0-9]+)_'",
        options=folder.OPTIONS,
    ),
    DataFormat(
        name="DICOM",
        description="a folder of DICOM files, with sub-folders per class or a .csv of labels; patients are groups",
        example="--data ct --model lenet5 --data-option labels=labels.csv --data-option window=40/400 "
        "--data-option size=64",
        options=dicom.OPTIONS,
        extra="dicom",
    ),
    DataFormat(
        name="NIfTI",
        description="a folder of .nii or .nii.gz files, with sub-folders per class or a .csv of labels",
        example="--data mri --model cnn3d --data-option size=32x32x32",
        options=nifti.OPTIONS,
        extra="nifti",
    ),
    DataFormat(
        name="Table",
        description="a .csv with a header: one row per sample, a label, and columns of numbers",
        example="--data ward.csv --model mlp --data-option label=diagnosis --data-option columns=age,pulse "
        "--data-option center=50,80 --data-option spread=20,15",
        options=csv_file.OPTIONS,
    ),
    DataFormat(
        name="Arrays",
        description="an .npz file without pickled objects; its arrays:",
        example="--data signals.npz --model har-cnn",
        options=npz.ARRAYS,
    ),
    DataFormat(
        name="Your own code",
        description="package.module:factory, a function that takes DataOptions and returns a Dataset",
        example="--data mydata:beats --model har-cnn --data-option seed=1",
        options={},
    ),
)


def formats_text() -> str:
    """Return the formats as text for a terminal."""
    lines = ["Options are given as --data-option NAME=VALUE, to init, check, join and predict alike."]
    for one in FORMATS:
        installed = f" (pip install 'fedap[{one.extra}]')" if one.extra else ""
        lines += ["", f"{one.name}{installed}", f"  {one.description}"]
        lines += [f"    {name:15} {meaning}" for name, meaning in one.options.items()]
        lines += [f"  fedap-participant init {one.example}"]
    return "\n".join(lines)
