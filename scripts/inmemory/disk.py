"""Stand-ins for the coordinator's disk and computing thread: dictionaries, some of which survive a crash.

They keep the contracts of the coordinator's store, jobs, model forms and computing thread as far as the shell uses
them, and check sizes only: every report of an honest member is admitted. The real code above them makes decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from coordinator.computing.jobs import Done, refs_of
from coordinator.decisions import actions, events
from coordinator.decisions.actions import BlobRef, RowRef, WeightsRef
from coordinator.record.journal import Draft, Entry
from coordinator.record.model_forms import Payload
from coordinator.record.snapshots import Snapshot
from coordinator.record.store import UPDATE
from fedap_core.arrays import Float32Array
from fedap_core.strategies import Phase
from protocol.contracts import Buffer
from protocol.limits import SLICE_BYTES
from protocol.naming import PendingDigest, content_name, digest_at_once
from protocol.tensors import Layout, TensorSet
from scripts.inmemory.setup import Setup


class MemoryJournal:
    """A journal in the memory of this process."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._snapshots: list[Snapshot] = []
        self._metadata: dict[str, str] = {}

    def append(self, drafts: Sequence[Draft]) -> int:
        for draft in drafts:
            serial = len(self._entries) + 1
            self._entries.append(Entry(serial=serial, time_s=draft.time_s, kind=draft.kind, body=draft.body))
        return len(self._entries)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        yield from self._entries[after:]

    def save_snapshot(self, snapshot: Snapshot) -> None:
        self._snapshots = [*self._snapshots, snapshot][-2:]

    def latest_snapshot(self) -> Snapshot | None:
        return self._snapshots[-1] if self._snapshots else None

    def metadata(self, name: str) -> str | None:
        return self._metadata.get(name)

    def set_metadata(self, name: str, value: str) -> None:
        self._metadata[name] = value

    def close(self) -> None:
        """Do nothing: no file is open."""


@dataclass
class MemoryDisk:
    """What survives a crash of the coordinator: its journal, admitted blobs, slices of incomplete payloads."""

    journal: MemoryJournal = field(default_factory=MemoryJournal)
    blobs: dict[BlobRef, bytes] = field(default_factory=dict)
    slices: dict[tuple[str, str], bytes] = field(default_factory=dict)


class MemoryIncoming:
    """Slices by member and transfer, without gaps."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def digest(self, data: Buffer) -> PendingDigest:
        return digest_at_once(data)

    def held(self, member: str, transfer: str, size_bytes: int) -> Iterator[Buffer]:
        held = self._disk.slices.get((member, transfer), b"")
        whole = min(len(held), size_bytes - 1) // SLICE_BYTES * SLICE_BYTES
        self._disk.slices[member, transfer] = held[:whole]
        yield from (held[start : start + SLICE_BYTES] for start in range(0, whole, SLICE_BYTES))

    def take(self, member: str, transfer: str, offset: int, data: Buffer) -> None:
        held = self._disk.slices.get((member, transfer), b"")
        if len(held) != offset:
            raise AssertionError(f"a slice at {offset} where {len(held)} bytes are held")
        self._disk.slices[member, transfer] = held + bytes(data)

    def drop(self, member: str, keep: frozenset[str] = frozenset()) -> bool:
        gone = [key for key in self._disk.slices if key[0] == member and key[1] not in keep]
        for key in gone:
            del self._disk.slices[key]
        return False


class MemoryStore:
    """Staged reports, lost in a crash, and blobs, which survive it."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk
        self.incoming = MemoryIncoming(disk)
        self._staged: dict[BlobRef, bytes] = {}

    def stage(self, ref: BlobRef, tensors: TensorSet) -> None:
        if tensors.data is not None:
            self._staged[ref] = bytes(tensors.data)
        else:
            self._staged[ref] = self._disk.slices.pop((ref.member, str(tensors.transfer)))

    def discard(self, ref: BlobRef) -> None:
        self._staged.pop(ref, None)

    def fits(self, ref: BlobRef, size_bytes: int | None) -> bool:
        """Whether a report was staged and has that size, if one is given."""
        found = self._staged.get(ref)
        return found is not None and size_bytes in (None, len(found))

    def keep(self, refs: Sequence[BlobRef]) -> None:
        """Make staged reports durable."""
        for ref in refs:
            self._disk.blobs[ref] = self._staged.pop(ref)

    def blob(self, ref: BlobRef) -> bytes:
        return self._disk.blobs[ref]

    def keep_tables(self, member: str, round_no: int, tensors: TensorSet) -> None:
        """Do nothing: the run does not depend on tables."""

    def collect(self, blobs: frozenset[BlobRef], rows: frozenset[RowRef]) -> int:
        del rows
        for ref in [ref for ref in self._disk.blobs if ref not in blobs]:
            del self._disk.blobs[ref]
        return 0

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class Forms:
    """The model as it is sent: the initial vector and mixed rows, all in memory."""

    encoding = upward = "f32"
    sealed = False

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._initial = self.payload(setup.initial)
        self._rows: dict[RowRef, Payload] = {}

    def shared(self, phase: Phase | None) -> Layout:
        del phase
        return self._setup.layout

    updates = shared
    """Nothing is sealed: an update has the layout of the shared weights."""

    def payload(self, values: Float32Array) -> Payload:
        data = values.data.cast("B").toreadonly()
        name = content_name(data) if data.nbytes > SLICE_BYTES else None
        return Payload(path=Path(), layout=self._setup.layout, encoding="f32", transfer=name, data=data)

    def initial(self) -> Payload:
        return self._initial

    def whole_anchor(self, ref: WeightsRef) -> Payload:
        del ref
        return self._initial

    def weights(self, ref: WeightsRef, phase: Phase | None) -> Payload:
        del phase
        return self._initial if ref.row is None else self._rows[ref.row]

    def add_row(self, ref: RowRef, payload: Payload) -> None:
        self._rows[ref] = payload

    def forget_rows(self, kept: frozenset[RowRef]) -> None:
        self._rows = {ref: row for ref, row in self._rows.items() if ref in kept}


class MemoryJobs:
    """Admits every report of the right size; W is uniform; rows are mixed by W or, in a continuous run, only derived
    from their round."""

    def __init__(self, setup: Setup, store: MemoryStore, forms: Forms) -> None:
        self._setup, self._store, self._forms = setup, store, forms

    def inspect(self, waiting: Sequence[actions.Inspect]) -> list[events.Inspected]:
        return [self._judge(one) for one in waiting]

    def _judge(self, one: actions.Inspect) -> events.Inspected:
        refs, size = refs_of(one), self._setup.layout.size_bytes("f32")
        fits = all(self._store.fits(ref, size if ref.kind == UPDATE else None) for ref in refs)
        if fits:
            self._store.keep(refs)
        return events.Inspected(
            member=one.member,
            kind=one.kind,
            round_no=one.round_no,
            code=None if fits else "wrong-tensors",
            reason="" if fits else "not what was asked for",
            distance=1.0,
        )

    def weigh(self, action: actions.Weigh) -> events.WeighingDone:
        share = 1.0 / len(action.members)
        row = (share,) * len(action.members)
        return events.WeighingDone(ticket=action.ticket, weights=(row,) * len(action.members))

    def aggregate(self, action: actions.Aggregate) -> list[tuple[RowRef, Payload]]:
        given = np.stack([np.frombuffer(self._store.blob(ref), dtype=np.float32) for ref in action.givers])
        if self._setup.continuous:  # a row's updates depend on the order: every order would give other numbers
            rows = [self._setup.initial + 1000 * ref.round_no for ref in action.receivers]
        else:
            rows = list((action.weights @ given).astype(np.float32))
        return [(ref, self._forms.payload(row)) for ref, row in zip(action.receivers, rows, strict=True)]


Work = actions.Action | tuple[actions.Inspect, ...]


class MemoryCompute:
    """Jobs wait in order until one is let through; it is then executed, and its answer is read in the next turn."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Work, Callable[[], object]]] = []
        self._done: list[Done[Work]] = []

    def submit(self, key: Work, job: Callable[[], object]) -> None:
        """Queue a job; collecting has no answer and is done at once if nothing waits."""
        if isinstance(key, actions.Collect) and not self.waiting:
            job()
        else:
            self.waiting.append((key, job))

    def let_through(self) -> None:
        key, job = self.waiting.pop(0)
        self._done.append(Done(key=key, answer=job()))

    def finished(self) -> list[Done[Work]]:
        done, self._done = self._done, []
        return done

    def close(self) -> None:
        """Do nothing: there is no thread."""
