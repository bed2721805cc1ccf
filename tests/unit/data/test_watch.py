"""The smartwatch recordings inside seglearn's wheel, and the unpickler that knows nothing but arrays."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from participant.data.base import DataOptions
from participant.data.watch import load, locate, read_recordings


def test_ten_people_seven_exercises_140_recordings() -> None:
    dataset = load(DataOptions())
    assert dataset.x.shape[1:] == (6, 200)
    assert dataset.x.dtype == np.float32
    assert len(np.unique(dataset.group)) == 140
    assert dataset.classes == ("PEN", "ABD", "FEL", "IR", "ER", "TRAP", "ROW")
    assert dataset.site_names[0] == "person-1"
    assert len(dataset.site_names) == 10
    assert dataset.overlapping


def test_a_recording_is_of_one_person_and_one_exercise() -> None:
    dataset = load(DataOptions())
    assert dataset.site is not None
    assert len(np.unique(np.stack((dataset.group, dataset.site, dataset.y)), axis=1).T) == 140


def test_windows_are_the_raw_steps_their_span_names() -> None:
    dataset = load(DataOptions())
    recordings = read_recordings(locate())
    assert dataset.span is not None
    for at in (0, 700, len(dataset) - 1):
        start, stop = dataset.span[at]
        raw = recordings.signals[dataset.group[at]][start:stop]
        assert raw.shape == (200, 6)
        assert np.array_equal(dataset.x[at], raw.T.astype(np.float32))


def test_windows_cover_every_recording_at_half_overlap() -> None:
    """A recording of L steps has floor((L - 200) / 100) + 1 windows."""
    dataset = load(DataOptions())
    lengths = [len(signal) for signal in read_recordings(locate()).signals]
    assert np.bincount(dataset.group).tolist() == [(length - 200) // 100 + 1 for length in lengths]


def test_another_content_is_refused_before_it_is_unpickled(tmp_path: Path) -> None:
    changed = tmp_path / "watch_dataset.npy"
    changed.write_bytes(locate().read_bytes() + b" ")
    with pytest.raises(InvalidInput, match=r"SHA-256.*pip install"):
        read_recordings(changed)


def npy_with(stream: bytes, path: Path) -> str:
    """A file that wraps the stream as numpy wraps objects; returns its hash, so that the hash check lets it through."""
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + stream
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", [b"os\nsystem", b"builtins\neval", b"numpy\nload", b"numpy.core.multiarray\nscalar"])
def test_the_unpickler_builds_arrays_and_nothing_else(name: bytes, tmp_path: Path) -> None:
    """The stream asks for a callable and calls it on a text: refused when it is named, never called."""
    path = tmp_path / "watch_dataset.npy"
    sha256 = npy_with(b"c" + name + b"\n(S'touch " + str(tmp_path / "harm").encode() + b"'\ntR.", path)
    with pytest.raises(InvalidInput, match="arrays and plain containers only"):
        read_recordings(path, sha256=sha256)
    assert not (tmp_path / "harm").exists()


def test_a_plain_container_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "watch_dataset.npy"
    sha256 = npy_with(b"(lp0\n.", path)  # an empty list
    with pytest.raises(InvalidInput, match="one table of recordings"):
        read_recordings(path, sha256=sha256)


def test_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """None in sys.modules is how Python itself marks a module that cannot be imported."""
    monkeypatch.setitem(sys.modules, "seglearn", None)
    with pytest.raises(InvalidInput, match=r"^seglearn: .*pip install 'fedap\[lab\]'"):
        locate()


def test_loading_imports_neither_seglearn_nor_medmnist_nor_torch() -> None:
    code = (
        "import sys; from participant.data import load_dataset; load_dataset('watch'); "
        "print([name for name in ('seglearn', 'medmnist', 'pandas', 'sklearn', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_takes_no_options() -> None:
    with pytest.raises(InvalidInput, match="no options at all"):
        load(DataOptions(options={"window": "100"}))
