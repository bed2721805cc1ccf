"""DICOM folders: values by the rules of the standard, patients as groups without a trace of who they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from fedap_core.errors import InvalidInput
from participant.data import DataOptions, Dataset, load_dataset, load_new
from participant.data.shard import save_npz
from tests.support.medical_files import item, write_dicom

WINDOW: dict[str, Any] = {"WindowCenter": 50.5, "WindowWidth": 101}
"""DICOM's LINEAR function, (x - (c - 0.5)) / (w - 1) + 0.5, is x / 100 here: 0 up to 0, and 255 from 100 on."""


def ramp(dtype: str = "int16") -> NDArray[np.generic]:
    return np.array([[-20, 0], [40, 120]]).astype(dtype)


def loaded(folder: Path, **options: str) -> Dataset:
    return load_dataset(str(folder), DataOptions(options=options))


def one(folder: Path, stored: NDArray[np.generic], window: str = "file", **attributes: object) -> list[list[int]]:
    """The pixels of a folder with one such file."""
    write_dicom(folder / "a" / "file.dcm", stored, patient="P1", **attributes)
    pixels: list[list[int]] = loaded(folder, window=window).x[0, 0].tolist()
    return pixels


def test_the_files_own_window_is_applied(tmp_path: Path) -> None:
    """40 of 100: 0.4 * 255 = 102."""
    assert one(tmp_path, ramp(), **WINDOW) == [[0, 0], [102, 255]]


def test_rescale_comes_before_the_window(tmp_path: Path) -> None:
    """40 * 2 - 30 = 50: 127.5 rounds to the even 128."""
    assert one(tmp_path, ramp(), RescaleSlope=2, RescaleIntercept=-30, **WINDOW) == [[0, 0], [128, 255]]


def test_monochrome1_is_inverted(tmp_path: Path) -> None:
    assert one(tmp_path, ramp(), PhotometricInterpretation="MONOCHROME1", **WINDOW) == [[255, 255], [153, 0]]


def test_a_stated_window_is_the_same_for_all_files_and_part_of_what_is_agreed(tmp_path: Path) -> None:
    """-50 to 150: -20 is 30 / 200, 0 is 50 / 200, 40 is 90 / 200, 120 is 170 / 200."""
    assert one(tmp_path, ramp(), "50/200", **WINDOW) == [[38, 64], [115, 217]]
    assert loaded(tmp_path, window="50/200").preprocessing != loaded(tmp_path).preprocessing
    assert "window 50/200" in loaded(tmp_path, window="50/200").preprocessing.steps


def test_the_full_range_is_that_of_the_stored_bits(tmp_path: Path) -> None:
    """8 bits without a sign: values as they are."""
    assert one(tmp_path, np.array([[0, 1], [200, 255]], dtype=np.uint8), "full") == [[0, 1], [200, 255]]


@pytest.mark.parametrize(
    ("function", "expected"),
    [("LINEAR_EXACT", [[0, 0], [102, 255]]), ("SIGMOID", [[15, 30], [102, 240]])],
)
def test_the_windows_function_is_the_one_that_the_file_names(
    function: str, expected: list[list[int]], tmp_path: Path
) -> None:
    """Center 50, width 100. Sigmoid: 255 / (1 + exp(-4 (x - 50) / 100)) is 14.6, 30.4, 102.4 (40: exp(0.4)), 240.5."""
    found = one(tmp_path, ramp(), VOILUTFunction=function, WindowCenter=50, WindowWidth=100)
    assert np.abs(np.array(found) - np.array(expected)).max() <= 1


def test_a_table_of_values_is_looked_up(tmp_path: Path) -> None:
    """Stored 0, 1, 2, 3 are 0, 10, 20, 255 of 8 bits."""
    lut = item(LUTDescriptor=[4, 0, 8], LUTData=[0, 10, 20, 255])
    lut[0]["LUTDescriptor"].VR, lut[0]["LUTData"].VR = "US", "US"
    stored = np.array([[0, 1], [2, 3]], dtype=np.uint16)
    assert one(tmp_path, stored, VOILUTSequence=lut) == [[0, 10], [20, 255]]


def test_an_exported_png_gives_the_same_samples(tmp_path: Path) -> None:
    """The image folder's reader and this one agree to the bit, resized or not, and on the preprocessing. Center 128
    and width 256 show 0 to 255 as they are: (x - 127.5) / 255 + 0.5 = x / 255."""
    rng = np.random.default_rng(0)
    for number in range(3):
        stored = rng.integers(0, 256, (20, 30)).astype(np.int16)
        write_dicom(tmp_path / "dicom" / "a" / f"{number}.dcm", stored, WindowCenter=128, WindowWidth=256)
        (tmp_path / "png" / "a").mkdir(parents=True, exist_ok=True)
        Image.fromarray(stored.astype(np.uint8)).save(tmp_path / "png" / "a" / f"{number}.png")
    for options in ({}, {"size": "16"}):
        ours, exported = loaded(tmp_path / "dicom", **options), loaded(tmp_path / "png", **options)
        assert ours.x.tobytes() == exported.x.tobytes()
        assert ours.preprocessing == exported.preprocessing


def test_colour_files_keep_their_colours_and_grey_ones_among_them_become_colour(tmp_path: Path) -> None:
    colours = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    write_dicom(tmp_path / "a" / "1.dcm", colours)
    write_dicom(tmp_path / "a" / "2.dcm", ramp(), **WINDOW)
    x = loaded(tmp_path).x
    assert np.moveaxis(x[0], 0, -1).tolist() == colours.tolist()
    assert x[1].tolist() == [[[0, 0], [102, 255]]] * 3


def test_patients_are_groups_whose_ids_are_kept_nowhere(tmp_path: Path) -> None:
    for number, patient in enumerate(("ID-SECRET-7", "ID-SECRET-3", "ID-SECRET-7")):
        write_dicom(tmp_path / "d" / "a" / f"{number}.dcm", ramp(), patient=patient, **WINDOW)
    data = loaded(tmp_path / "d")
    assert data.group.tolist() == loaded(tmp_path / "d").group.tolist() == [0, 1, 0]
    assert "SECRET" not in repr(data)
    save_npz(data, tmp_path / "stored.npz")
    assert b"SECRET" not in (tmp_path / "stored.npz").read_bytes()


def test_a_file_without_a_patient_is_refused_unless_something_else_is_the_group(tmp_path: Path) -> None:
    write_dicom(tmp_path / "a" / "1.dcm", ramp(), patient=None, **WINDOW)
    with pytest.raises(InvalidInput, match=r"1.dcm: got no PatientID.*group=study"):
        loaded(tmp_path)
    assert loaded(tmp_path, group="study").group.tolist() == [0]


def test_labels_come_from_a_table_by_file_or_by_patient(tmp_path: Path) -> None:
    for number, patient in enumerate(("SECRET-7", "SECRET-3")):
        write_dicom(tmp_path / "scans" / f"{number}", ramp(), patient=patient, **WINDOW)  # no suffix, as archives do
    table = tmp_path / "labels.csv"
    table.write_text("file,patient,label\n0,SECRET-3,well\n1,SECRET-7,sick\n")
    assert loaded(tmp_path / "scans", labels=str(table)).y.tolist() == [1, 0]  # sick, well
    assert loaded(tmp_path / "scans", labels=str(table), match="patient").y.tolist() == [0, 1]
    table.write_text("file,patient,label\n0,SECRET-3,well\n")
    with pytest.raises(InvalidInput, match=r"a row for its patient in .*labels.csv") as caught:
        loaded(tmp_path / "scans", labels=str(table), match="patient")
    assert "SECRET" not in str(caught.value)


def test_frames_of_a_file_are_refused_or_become_samples_of_one_patient(tmp_path: Path) -> None:
    stored = np.stack([ramp(), ramp() + 20]).astype(np.int16)
    write_dicom(tmp_path / "a" / "1.dcm", stored, **WINDOW)
    with pytest.raises(InvalidInput, match=r"2 frames, expected one frame per file\. Use frames=split"):
        loaded(tmp_path)
    data = loaded(tmp_path, frames="split")
    assert data.x[:, 0].tolist() == [[[0, 0], [102, 255]], [[0, 51], [153, 255]]]
    assert data.group.tolist() == [0, 0]
    new = load_new(str(tmp_path), DataOptions(options={"frames": "split"}))
    assert new.names == ("a/1.dcm#1", "a/1.dcm#2")


def test_each_frame_of_an_enhanced_file_has_its_own_rescale_and_window(tmp_path: Path) -> None:
    """Frame 2 is stored at half its values; both then show the same."""
    stored = np.stack([ramp(), ramp() // 2]).astype(np.int16)
    groups = [
        item(
            PixelValueTransformationSequence=item(RescaleSlope=slope, RescaleIntercept=0, RescaleType="HU"),
            FrameVOILUTSequence=item(**WINDOW),
        )[0]
        for slope in (1, 2)
    ]
    write_dicom(tmp_path / "a" / "1.dcm", stored, PerFrameFunctionalGroupsSequence=groups)
    assert loaded(tmp_path, frames="split").x[:, 0].tolist() == [[[0, 0], [102, 255]]] * 2


def test_new_files_need_no_labels_and_keep_their_names(tmp_path: Path) -> None:
    write_dicom(tmp_path / "b.dcm", ramp(), patient=None, **WINDOW)
    write_dicom(tmp_path / "a.dcm", ramp(), **WINDOW)
    assert load_new(str(tmp_path)).names == ("a.dcm", "b.dcm")
    assert load_new(str(tmp_path / "b.dcm")).names == ("b.dcm",)


@pytest.mark.parametrize(
    ("attributes", "options", "complaint"),
    [
        ({}, {}, "no window, expected WindowCenter and WindowWidth in every file. Use window=CENTER/WIDTH"),
        (WINDOW, {"window": "40"}, "center/width, as in 40/400, or file or full"),
        (WINDOW, {"window": "40/0"}, "center/width"),
        (WINDOW, {"group": "person"}, "one of instance, patient, series, study"),
        (WINDOW, {"match": "person"}, "one of file, instance, patient"),
        (WINDOW, {"frames": "first"}, "one of refuse, split"),
        (WINDOW, {"windows": "full"}, "Did you mean 'window'"),
        (WINDOW | {"PhotometricInterpretation": "PALETTE COLOR"}, {}, "PhotometricInterpretation PALETTE COLOR"),
        (WINDOW | {"PixelData": b"\0"}, {}, "pixels that can be decoded"),
        ({"WindowCenter": 1, "WindowWidth": -3}, {}, "a width above 0"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(
    attributes: dict[str, Any], options: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    write_dicom(tmp_path / "a" / "1.dcm", ramp(), **attributes)
    with pytest.raises(InvalidInput, match=complaint) as caught:
        loaded(tmp_path, **options)
    assert "Doe" not in str(caught.value)


def test_files_of_several_sizes_or_formats_are_distinguished(tmp_path: Path) -> None:
    write_dicom(tmp_path / "a" / "1.dcm", ramp(), **WINDOW)
    write_dicom(tmp_path / "a" / "2.dcm", np.zeros((3, 5), dtype=np.int16), **WINDOW)
    with pytest.raises(InvalidInput, match=r"a/2.dcm: got 5x3 pixels, expected 2x2 pixels like a/1.dcm"):
        loaded(tmp_path)
    assert loaded(tmp_path, size="4").input_shape == (1, 4, 4)
    Image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(tmp_path / "a" / "1.png")
    with pytest.raises(InvalidInput, match="several formats: dicom and images"):
        loaded(tmp_path)
    assert len(loaded(tmp_path, format="images")) == 1
    (tmp_path / "a" / "3.dcm").write_bytes(b"no DICOM at all")
    with pytest.raises(InvalidInput, match=r"3.dcm: got unreadable"):
        loaded(tmp_path, format="dicom", size="4")
