"""Where a run's tensors lie, and when they are durable: incoming slices, staged reports, admitted blobs, mixed rows.

A blob is named (member, kind, round_no) inside the folder of its run. It is written under a temporary name, checksummed
on the way, made durable, then renamed; the row of the journal that mentions it comes after that. Rows are recomputed
after a crash and never forced to the disk. Decides nothing about which blobs are needed: `collect` is told.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coordinator.actions import BlobRef, RowRef
from coordinator.blobs import StoredSet, describe, finish, opened, read_exactly, write_exactly
from fedap_core.errors import InvalidInput
from protocol.contracts import Buffer
from protocol.encodings import Encoding
from protocol.limits import SLICE_BYTES
from protocol.tensors import Layout, TensorSet


@dataclass(frozen=True, kw_only=True)
class Staged:
    """Bytes that have arrived and that nobody has judged yet."""

    path: Path
    layout: Layout
    encoding: Encoding


class Store:
    """The folders of one run. Reading, finishing and collecting may happen in another thread than staging."""

    def __init__(self, folder: Path, *, scratch: Path | None = None) -> None:
        """`scratch`: where to put what can be made again, instead of inside the folder, which then is only read."""
        self._folder = folder
        self._scratch = scratch or folder
        for name in ("staged", "rows"):  # of an earlier life: will come again, or is computed again
            shutil.rmtree(self._scratch / name, ignore_errors=True)
        for name in ("incoming", "staged", "rows", "fixed"):
            (self._scratch / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._staged: dict[BlobRef, Staged] = {}

    # ---- slices under way

    def held_slices(self, member: str, transfer: str, size_bytes: int) -> Iterator[Buffer]:
        """Whole slices of a transfer that an earlier connection or process has left here; the last is fetched anew."""
        path = self._incoming(member, transfer)
        whole = 0
        if path.is_file():
            whole = min(path.stat().st_size // SLICE_BYTES, (size_bytes - 1) // SLICE_BYTES)
        with opened(path, os.O_RDWR | os.O_CREAT) as handle:
            os.ftruncate(handle, whole * SLICE_BYTES)
            for number in range(whole):
                piece = bytearray(SLICE_BYTES)
                read_exactly(handle, memoryview(piece), number * SLICE_BYTES)
                yield piece

    def take_slice(self, member: str, transfer: str, offset: int, data: Buffer) -> None:
        """Put a slice where it belongs."""
        with opened(self._incoming(member, transfer), os.O_WRONLY | os.O_CREAT) as handle:
            write_exactly(handle, data, offset)

    def drop_incoming(self, member: str, keep: frozenset[str] = frozenset()) -> None:
        """Delete a member's half-way transfers, apart from those named."""
        for path in (self._scratch / "incoming").glob(f"{member}~*"):
            if path.name.partition("~")[2] not in keep:
                path.unlink(missing_ok=True)

    # ---- reports that wait to be judged

    def stage(self, ref: BlobRef, tensors: TensorSet) -> None:
        """Put a report's set aside: the bytes it brought, or those that its transfer has collected."""
        path = self._place("staged", ref)
        path.parent.mkdir(parents=True, exist_ok=True)
        if tensors.data is not None:
            path.write_bytes(tensors.data)
        else:
            self._incoming(ref.member, str(tensors.transfer)).replace(path)
        self._staged[ref] = Staged(path=path, layout=tensors.layout, encoding=tensors.encoding)

    def staged(self, ref: BlobRef) -> Staged:
        """What is set aside under that name."""
        if ref not in self._staged:
            raise InvalidInput("report", ref, "one that has arrived")
        return self._staged[ref]

    def is_staged(self, ref: BlobRef) -> bool:
        return ref in self._staged

    def discard(self, ref: BlobRef) -> None:
        """Drop staged bytes; nothing happens where there are none."""
        staged = self._staged.pop(ref, None)
        if staged is not None:
            staged.path.unlink(missing_ok=True)

    def keep(self, ref: BlobRef, crc32: int) -> None:
        """Make staged bytes a blob, durable when this returns."""
        staged = self.staged(ref)
        finish(staged.path, staged.layout, staged.encoding, crc32)
        path = self._place("blobs", ref)
        _make_durably(path.parent, self._folder)
        staged.path.replace(path)
        _force(path.parent)
        del self._staged[ref]

    # ---- blobs and rows

    def blob(self, ref: BlobRef) -> StoredSet:
        """An admitted blob; InvalidInput if it is not there or not whole."""
        return describe(self._place("blobs", ref))

    def row_path(self, ref: RowRef) -> Path:
        """Where a mixed row lies, or is to be written."""
        return self._scratch / "rows" / f"{ref.round_no:07d}" / (f"{ref.member}~" if ref.alone else ref.member)

    def fixed_path(self, name: str) -> Path:
        """Where a form of the initial model or the anchor lies that is sent as it is."""
        return self._scratch / "fixed" / name

    def keep_tables(self, member: str, round_no: int, tensors: TensorSet) -> None:
        """Class counts and confusion matrices that a participant agreed to share: results, never collected."""
        if tensors.data is not None:
            path = self._folder / "tables" / f"{round_no:07d}" / member
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tensors.data)
            finish(path, tensors.layout, tensors.encoding, zlib.crc32(tensors.data))

    def collect(self, blobs: frozenset[BlobRef], rows: frozenset[RowRef]) -> int:
        """Delete every blob and row that is not listed; returns the bytes freed."""
        kept = {self._place("blobs", ref) for ref in blobs} | {self.row_path(ref) for ref in rows}
        freed = 0
        for top in (self._folder / "blobs", self._scratch / "rows"):
            for path in sorted(top.rglob("*"), reverse=True):
                if path.is_dir():
                    if not any(path.iterdir()):
                        path.rmdir()
                elif path not in kept:
                    freed += path.stat().st_size
                    path.unlink()
        return freed

    def used_bytes(self) -> int:
        """Disk in use by everything here."""
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())

    def free_bytes(self) -> int:
        """Disk that is free for an ordinary user where the run's folder lies."""
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize

    def _incoming(self, member: str, transfer: str) -> Path:
        return self._scratch / "incoming" / f"{member}~{transfer}"

    def _place(self, top: str, ref: BlobRef) -> Path:
        base = self._scratch if top == "staged" else self._folder
        return base / top / ref.kind / f"{ref.round_no:07d}" / ref.member


def _make_durably(folder: Path, base: Path) -> None:
    """Make a folder below `base`, and force the entries of those that were missing."""
    if folder != base and not folder.is_dir():
        _make_durably(folder.parent, base)
        folder.mkdir()
        _force(folder.parent)


def _force(folder: Path) -> None:
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as handle:
        os.fsync(handle)
