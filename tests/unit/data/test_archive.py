"""Archives of others: absent, damaged, pickled or of another shape, and always one line that names the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from participant.data.archive import read_archive
from tests.support.datafiles import flip_member_bytes, truncate, write_chest


def complaint(path: Path) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_archive(path, fix="Fetch it again.")
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith("Fetch it again.")
    return str(caught.value)


def test_only_the_named_arrays_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.arange(4))
    archive = read_archive(tmp_path / "a.npz", names=("y",))
    assert archive.get("x") is None
    assert archive.integers("y").tolist() == [0, 1, 2, 3]
    with pytest.raises(InvalidInput, match="an array named 'x'"):
        archive.array("x")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "no such file" in complaint(tmp_path / "absent.npz")


def test_a_truncated_archive_is_called_damaged(tmp_path: Path) -> None:
    write_chest(tmp_path / "cut.npz", labels=[0, 1], patients=[1, 2])
    truncate(tmp_path / "cut.npz")
    assert "damaged" in complaint(tmp_path / "cut.npz")


def test_flipped_bytes_inside_an_archive_are_found(tmp_path: Path) -> None:
    write_chest(tmp_path / "bad.npz", labels=[0, 1], patients=[1, 2])
    flip_member_bytes(tmp_path / "bad.npz")
    assert "damaged" in complaint(tmp_path / "bad.npz")


def test_a_text_file_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "page.npz").write_text("<html>not found</html>")
    assert "damaged" in complaint(tmp_path / "page.npz")


def test_an_empty_file_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "empty.npz").touch()
    assert "damaged" in complaint(tmp_path / "empty.npz")


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    with (tmp_path / "one.npz").open("wb") as stream:
        np.save(stream, np.arange(3))
    assert "single array" in complaint(tmp_path / "one.npz")


def test_an_array_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", x=np.array([{"a": 1}], dtype=object))
    assert "damaged" in complaint(tmp_path / "objects.npz")


def test_shape_and_whole_numbers_are_required(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 3)), y=np.array([0.5]))
    archive = read_archive(tmp_path / "a.npz")
    assert archive.array("x", shape=(None, 3)).shape == (2, 3)
    with pytest.raises(InvalidInput, match=r"a.npz: x: got shape \(2, 3\), expected shape \(n, 4\)"):
        archive.array("x", shape=(None, 4))
    with pytest.raises(InvalidInput, match="whole numbers"):
        archive.integers("y")
