"""NIfTI folders: one orientation whatever the affine says, windows, slices, and volumes for a 3-D network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from fedap_core.errors import InvalidInput
from participant.cli import main
from participant.data import DataOptions, Dataset, load_dataset, load_new
from participant.data.nifti import _resized
from participant.record.model_file import read_model
from tests.support.cohorts import run_command
from tests.support.hospitals import federate
from tests.support.medical_files import write_nifti

FULL = "127.5/255"
"""0 to 255 as they are."""


def counted(*shape: int) -> NDArray[np.float32]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def loaded(folder: Path, **options: str) -> Dataset:
    return load_dataset(str(folder), DataOptions(options=options))


def test_axes_run_from_the_top_down_front_to_back_and_right_to_left(tmp_path: Path) -> None:
    """RAS: the first axis runs to the right, the second to the front, the third up; ours are reversed in each."""
    values = counted(2, 3, 4)
    write_nifti(tmp_path / "a" / "1.nii.gz", values)
    x = loaded(tmp_path, window=FULL).x
    assert x.shape == (1, 1, 4, 3, 2)
    assert x[0, 0, 0, 0, 0] == values[-1, -1, -1]
    assert x[0, 0, 1, 2, 0] == values[-1, 0, 2]


def test_the_affine_decides_not_the_order_in_the_file(tmp_path: Path) -> None:
    """The same head stored with its first axis to the left (LAS) and with axes exchanged gives the same volume."""
    values = counted(2, 3, 4)
    left = np.diag([-1.0, 1.0, 1.0, 1.0])
    exchanged = np.array([[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]], dtype=np.float64)
    write_nifti(tmp_path / "a" / "1.nii.gz", values)
    write_nifti(tmp_path / "a" / "2.nii.gz", values[::-1].copy(), left)
    write_nifti(tmp_path / "a" / "3.nii", values.transpose(2, 1, 0).copy(), exchanged)
    x = loaded(tmp_path, window=FULL).x
    assert x[1].tolist() == x[2].tolist() == x[0].tolist()


def test_percentiles_are_those_of_each_volume_alone(tmp_path: Path) -> None:
    """A volume in other units of brightness gives the same sample."""
    values = np.random.default_rng(0).normal(size=(8, 8, 8)).astype(np.float32)
    write_nifti(tmp_path / "a" / "1.nii.gz", values)
    write_nifti(tmp_path / "a" / "2.nii.gz", values * 1000 + 5000)
    x = loaded(tmp_path).x.astype(np.int64)
    assert np.abs(x[0] - x[1]).max() <= 1
    assert (x.min(), x.max()) == (0, 255)


def test_slices_are_images_of_one_group_per_file(tmp_path: Path) -> None:
    values = counted(2, 3, 4)
    write_nifti(tmp_path / "a" / "1.nii.gz", values)
    write_nifti(tmp_path / "b" / "2.nii.gz", values)
    axial = loaded(tmp_path, window=FULL, view="slices")
    assert axial.x.shape == (8, 1, 3, 2)
    assert axial.x[0, 0].tolist() == values[::-1, ::-1, 3].T.tolist()
    assert axial.group.tolist() == [0] * 4 + [1] * 4
    assert axial.y.tolist() == [0] * 4 + [1] * 4
    coronal = loaded(tmp_path, window=FULL, view="slices", axis="coronal", slices="1")
    assert coronal.x.shape == (2, 1, 4, 2)
    assert coronal.x[0, 0].tolist() == values[::-1, 1, ::-1].T.tolist()
    new = load_new(str(tmp_path / "a" / "1.nii.gz"), DataOptions(options={"view": "slices", "slices": "2"}))
    assert new.names == ("1.nii.gz#2", "1.nii.gz#4")  # of 4 slices those at 1/4 and 3/4


def test_volumes_are_resized_as_images_are(tmp_path: Path) -> None:
    """A volume that is the same in every slice becomes what PIL makes of the slice, rounding apart."""
    image = np.random.default_rng(0).integers(0, 256, (20, 30)).astype(np.uint8)
    volume = np.repeat((image / 255.0)[None], 6, axis=0)
    ours = _resized(volume, DataOptions(options={"size": "4x16x12"}))
    pil = np.asarray(Image.fromarray(image).resize((12, 16), Image.Resampling.BILINEAR))
    assert ours.shape == (1, 4, 16, 12)
    assert np.abs(ours[0].astype(int) - pil.astype(int)).max() <= 1


def test_patients_are_captured_in_the_path(tmp_path: Path) -> None:
    for name in ("sub-01_run-1", "sub-01_run-2", "sub-02_run-1"):
        write_nifti(tmp_path / "a" / f"{name}.nii.gz", counted(2, 2, 2))
    assert loaded(tmp_path, group="(sub-[0-9]+)").group.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("values", "options", "complaint"),
    [
        (counted(2, 2, 2, 3), {}, "expected one volume of three axes"),
        (np.full((2, 2, 2), np.nan, dtype=np.float32), {}, "NaN or infinity"),
        (counted(2, 2, 2), {"view": "slice"}, "Did you mean 'slices'"),
        (counted(2, 2, 2), {"axis": "axal"}, "Did you mean 'axial'"),
        (counted(2, 2, 2), {"view": "slices", "slices": "3"}, "at most 2"),
        (counted(2, 2, 2), {"window": "wide"}, "center/width, as in 40/400, or percentiles"),
        (counted(2, 2, 2), {"size": "32"}, "3 sizes joined by x"),
        (counted(2, 2, 3), {}, "size 3x2x2, expected size 2x2x2 like a/1.nii.gz"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(
    values: NDArray[np.float32], options: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    write_nifti(tmp_path / "a" / "1.nii.gz", counted(2, 2, 2))
    write_nifti(tmp_path / "a" / "2.nii.gz", values)
    with pytest.raises(InvalidInput, match=complaint):
        loaded(tmp_path, **options)
    (tmp_path / "a" / "2.nii.gz").write_bytes(b"nothing of the kind")
    with pytest.raises(InvalidInput, match=r"2.nii.gz: got unreadable"):
        loaded(tmp_path)


def test_two_hospitals_with_volumes_train_a_3d_network(tmp_path: Path) -> None:
    """The large are bright in their middle. FedAP measures three BN layers of three-dimensional inputs."""
    for number, name in enumerate(("north", "south")):
        rng = np.random.default_rng(number)
        for case in range(40):
            values = rng.normal(size=(18, 18, 18)).astype(np.float32)
            if case % 2:
                values[5:13, 5:13, 5:13] += 3.0
            write_nifti(tmp_path / name / ("large" if case % 2 else "small") / f"{case}.nii.gz", values)
    initial = tmp_path / "initial.safetensors"
    made = run_command(
        main, "init", "--data", str(tmp_path / "north"), "--model", "cnn3d", "--data-option", "size=16x16x16", "--out",
        str(initial),
    )  # fmt: skip
    assert made.code == 0, made.complaint
    states = federate(
        tmp_path, initial, {name: {"data": str(tmp_path / name)} for name in ("north", "south")}, rounds=3
    )
    for state in states.values():
        spec, tensors, notes = read_model(state / "personal.safetensors")
        assert spec.input_shape == (1, 16, 16, 16)
        assert float(notes["test_accuracy"]) > 0.8
        assert tensors["features.1.running_mean"].abs().max() > 0
