"""Stores a run's tensors and makes them durable: staged reports, admitted blobs, mixed rows.

A blob is named (member, kind, round_no) inside the folder of its run, and checksummed. It is durable before the journal
entry that mentions it is written; until then the name means nothing, and a file of an earlier process is overwritten.
Reports small enough for one message stay in memory, up to a bound, until they are mixed: their files are read only
after a restart. Which blobs are needed is not decided here: `collect` is given the list.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from coordinator.decisions.actions import BlobRef, RowRef
from coordinator.record.blobs import StoredSet, checksum_of, describe, fault_of, finish, force, opened, write_finished
from coordinator.record.disk import ReusableFiles
from coordinator.record.incoming import Incoming
from fedap_core.arrays import Float32Array
from fedap_core.errors import InvalidInput
from protocol.encodings import Encoding, to_wire
from protocol.limits import MIB, SLICE_BYTES
from protocol.tensors import Layout, TensorSet

UPDATE, STATS, UPDATE_STATS = "update", "stats", "update-statistics"
"""Kinds of blobs: an update's weights, the answer to `anchor`, and statistics sent with an update."""

TOGETHER = 64
"""Number of files that are written, and kept open, before they are synced."""

HELD_BYTES = 384 * MIB
"""Most memory for reports sent within one message: those of 1,000 members with a LeNet-5 for this round and the one
before. Further reports are stored on disk only."""

_NOWHERE = Path()
"""Stands for the path of data in memory only: building a path would cost more than keeping the bytes."""


@dataclass(frozen=True, kw_only=True)
class Staged:
    """Received bytes that are not inspected yet: in memory or, without `data`, in a file."""

    path: Path
    layout: Layout
    encoding: Encoding
    data: memoryview | None = field(default=None, repr=False, compare=False)


class Store:
    """The folders of one run. The socket's thread stages reports; the computing thread handles blobs."""

    def __init__(self, folder: Path, *, scratch: Path | None = None, held_bytes: int = HELD_BYTES) -> None:
        """scratch: where to put files that can be computed again, instead of the folder, which is then only read."""
        self._folder = folder
        self._scratch = scratch or folder
        for name in ("staged", "rows", "spare"):  # of an earlier process: received or computed again
            shutil.rmtree(self._scratch / name, ignore_errors=True)
        for name in ("incoming", "staged", "rows", "fixed"):
            (self._scratch / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._large_reusable = ReusableFiles(self._scratch / "spare" / "large")
        self.incoming = Incoming(self._scratch / "incoming", self._large_reusable)
        """Slices of payloads in transfer."""
        self._reusable = ReusableFiles(self._scratch / "spare")
        self._staged: dict[BlobRef, Staged] = {}
        self._room = held_bytes
        self._counting = threading.Lock()
        self._blobs: dict[BlobRef, StoredSet | None] = dict.fromkeys(_found(folder / "blobs"))
        """The blobs in the folder; None: not read by this process yet."""
        self._rows: set[RowRef] = set()

    # ---- reports that wait for inspection

    def stage(self, ref: BlobRef, tensors: TensorSet) -> None:
        """Stage a report's tensor set: the bytes in its message, or those that its transfer has collected."""
        path, data = _NOWHERE, tensors.data
        if data is None or not self._take(data.nbytes):
            path = self._place("staged", ref)
            path.parent.mkdir(parents=True, exist_ok=True)
            if data is not None:
                path.write_bytes(data)
            else:
                self.incoming.hand_over(ref.member, str(tensors.transfer), path)
            data = None
        self._staged[ref] = Staged(path=path, layout=tensors.layout, encoding=tensors.encoding, data=data)

    def staged(self, ref: BlobRef) -> Staged:
        """Return the staged set with this name."""
        if ref not in self._staged:
            raise InvalidInput("report", ref, "one that has arrived")
        return self._staged[ref]

    def restage(self, ref: BlobRef, blocks: Iterable[Float32Array]) -> Staged:
        """Replace a report's staged difference with the full values, because the base it refers to will be deleted.
        blocks: the values in order, which may be read from the difference as they are written."""
        layout = self.staged(ref).layout
        if layout.size_bytes("f32") <= SLICE_BYTES:
            values = np.concatenate([*blocks, np.empty(0, dtype=np.float32)])
            self.discard(ref)
            self.stage(ref, TensorSet.staying(layout, "f32", to_wire(values, "f32")))
            return self._staged[ref]
        path = self._place("staged", ref)
        full = path.with_name(f"{path.name}~full")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with full.open("wb") as file:
                for block in blocks:
                    file.write(to_wire(block, "f32"))
        except OSError:
            full.unlink(missing_ok=True)
            raise
        self.discard(ref)
        self._staged[ref] = Staged(path=full.replace(path), layout=layout, encoding="f32")
        return self._staged[ref]

    def is_staged(self, ref: BlobRef) -> bool:
        return ref in self._staged

    def discard(self, ref: BlobRef) -> None:
        """Drop staged bytes, if there are any."""
        staged = self._staged.pop(ref, None)
        if staged is None:
            return
        if staged.data is None:
            staged.path.unlink(missing_ok=True)
        else:
            self._give(staged.data.nbytes)

    def keep(self, checksums: Mapping[BlobRef, int]) -> None:
        """Turn staged sets into blobs, all durable when this returns. OSError: none is kept, staged or stored."""
        series = {(ref.kind, ref.round_no) for ref in checksums}
        folders = [Path(f"{self._folder}/blobs/{kind}/{number:07d}") for kind, number in series]
        written: dict[BlobRef, StoredSet] = {}
        refs = list(checksums)
        try:
            for folder in folders:
                _make_durably(folder, self._folder)
            for at in range(0, len(refs), TOGETHER):
                written |= self._write_durably({ref: checksums[ref] for ref in refs[at : at + TOGETHER]})
            for folder in folders:
                force(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            self._large_reusable.drop()
            self._reusable.drop()
            for ref in checksums:
                self.discard(ref)
                with contextlib.suppress(OSError):  # on a failing disk, deletion may fail too
                    self._place("blobs", ref).unlink()
            raise
        self._blobs |= written
        for ref in written:
            self._staged.pop(ref, None)

    def _write_durably(self, checksums: Mapping[BlobRef, int]) -> dict[BlobRef, StoredSet]:
        """Write all files, then sync all: an fsync may also flush other files, which makes the later ones cheaper."""
        written: dict[BlobRef, StoredSet] = {}
        handles: list[int] = []
        try:
            for ref, checksum in checksums.items():
                staged, path = self.staged(ref), self._place("blobs", ref)
                if staged.data is None:
                    finish(staged.path, staged.layout, staged.encoding, checksum)
                    staged.path.replace(path)
                else:
                    self._reusable.take(path)
                handles.append(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
                if staged.data is not None:
                    write_finished(handles[-1], staged.data, staged.layout, staged.encoding, checksum)
                written[ref] = StoredSet(
                    path=path, layout=staged.layout, encoding=staged.encoding, checksum=checksum, data=staged.data
                )
            for handle in handles:
                os.fsync(handle)
        finally:
            for handle in handles:
                os.close(handle)
        return written

    # ---- blobs and rows

    def blob(self, ref: BlobRef) -> StoredSet:
        """Return an admitted blob; InvalidInput if it is missing or incomplete."""
        known = self._blobs.get(ref)
        return known if known is not None else describe(self._place("blobs", ref))

    def fault_of(self, ref: BlobRef) -> str:
        """Return what is wrong with an admitted blob; empty if nothing, or if it is in memory."""
        known = self._blobs.get(ref)
        return "" if known is not None and known.data is not None else fault_of(self._place("blobs", ref))

    def path_of(self, ref: BlobRef) -> Path:
        """Return the path of an admitted blob."""
        return self._place("blobs", ref)

    def set_aside(self, ref: BlobRef) -> Path | None:
        """Move a damaged blob to the folder `damaged`; None if there is no file."""
        self._blobs.pop(ref, None)
        return set_aside(self._folder, self._place("blobs", ref))

    def row_path(self, ref: RowRef) -> Path:
        """Return the path of a mixed row, whether it exists yet or not."""
        return Path(f"{self._scratch}/rows/{ref.round_no:07d}/{ref.member}{'~' if ref.alone else ''}")

    def expect_rows(self, refs: tuple[RowRef, ...]) -> list[Path]:
        """Register rows that are about to be written, so that `collect` knows them; return their paths."""
        self._rows.update(refs)
        return [self.row_path(ref) for ref in refs]

    def fixed_path(self, name: str) -> Path:
        """Return the path of an encoded form of the initial model or the anchor."""
        return self._scratch / "fixed" / name

    def keep_tables(self, member: str, round_no: int, tensors: TensorSet) -> None:
        """Store class counts and confusion matrices that a participant agreed to share: results, never deleted. The run
        does not depend on them, so they are not synced to disk."""
        if tensors.data is not None:
            path = self._folder / "tables" / f"{round_no:07d}" / member
            path.parent.mkdir(parents=True, exist_ok=True)
            with opened(path, os.O_RDWR | os.O_CREAT) as handle:
                write_finished(handle, tensors.data, tensors.layout, tensors.encoding, checksum_of(tensors.data))

    def collect(self, blobs: frozenset[BlobRef], rows: frozenset[RowRef]) -> int:
        """Delete every blob and row that is not listed, or keep its file for reuse; return the bytes freed."""
        gone = [ref for ref in self._blobs if ref not in blobs]
        small, large = [], []
        for ref in gone:
            stored = self._blobs.pop(ref)
            if stored is not None and stored.data is not None:
                self._give(stored.data.nbytes)
                small.append(self._name("blobs", ref))
            elif stored is not None and stored.size_bytes > SLICE_BYTES:
                large.append(self._name("blobs", ref))
        old = self._rows - rows
        self._rows &= rows
        paths = [self._name("blobs", ref) for ref in gone] + [str(self.row_path(ref)) for ref in old]
        freed = self._reusable.put(small) + self._large_reusable.put(large)
        freed += sum(map(_delete, set(paths).difference(small, large)))
        for folder in {os.path.dirname(path) for path in paths}:  # noqa: PTH120 - hundreds of paths in every round
            with contextlib.suppress(OSError):  # not empty yet
                os.rmdir(folder)  # noqa: PTH106
        return freed

    def close(self) -> None:
        """Delete reusable files, which only a running run needs."""
        self._large_reusable.drop()
        self._reusable.drop()

    def free_bytes(self) -> int:
        """Return the disk space free to an ordinary user on the run's disk, plus files that large reports may reuse."""
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize + self._large_reusable.size_bytes()

    def can_write(self) -> bool:
        """Whether a megabyte can be written to the disk and synced."""
        path = self._scratch / "fixed" / "probe"
        try:
            path.write_bytes(bytes(MIB))
            force(path)
            path.unlink()
        except OSError:
            return False
        return True

    def _take(self, size: int) -> bool:
        """Reserve memory for a report; return whether it fits."""
        with self._counting:
            fits = size <= self._room
            self._room -= size if fits else 0
        return fits

    def _give(self, size: int) -> None:
        with self._counting:
            self._room += size

    def _place(self, top: str, ref: BlobRef) -> Path:
        return Path(self._name(top, ref))

    def _name(self, top: str, ref: BlobRef) -> str:
        base = self._scratch if top == "staged" else self._folder
        return f"{base}/{top}/{ref.kind}/{ref.round_no:07d}/{ref.member}"


def _delete(path: str) -> int:
    """Delete a file, if it exists; return its size."""
    try:
        size = os.stat(path).st_size  # noqa: PTH116
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        return 0
    return size


def _found(top: Path) -> Iterator[BlobRef]:
    """Yield the blobs in a folder, complete or not."""
    for path in top.glob("*/*/*"):
        if path.parent.name.isdecimal():
            yield BlobRef(member=path.name, kind=path.parent.parent.name, round_no=int(path.parent.name))


def set_aside(folder: Path, path: Path) -> Path | None:
    """Move a file of a run's folder to its subfolder `damaged`, under a free name; None if there is no file."""
    if not path.exists():
        return None
    top = folder / "damaged"
    top.mkdir(exist_ok=True, mode=0o700)
    name = "-".join(path.relative_to(folder).parts)
    taken = {one.name for one in top.iterdir()}
    free = next(one for count in range(len(taken) + 1) if (one := f"{name}.{count}") not in taken)
    return path.rename(top / free)


def _make_durably(folder: Path, base: Path) -> None:
    """Create a folder below `base`, syncing the parent of each folder that was missing."""
    if folder != base and not folder.is_dir():
        _make_durably(folder.parent, base)
        folder.mkdir()
        force(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
