"""The computing thread and its jobs: inspect reports, compute W from statistics, mix rows. Reads and writes files.

Every job is a function of an action and returns the event that the machine waits for; a failing job returns its error,
and the thread continues. Large models are read tile by tile and are never in memory as a whole. When a job is due, and
what follows from it, is decided elsewhere.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from coordinator.computing.rows import Product, RowForms, changed, mix_files, mix_in_memory
from coordinator.computing.sealed_mixing import mix_sealed
from coordinator.decisions.actions import Aggregate, BlobRef, Inspect, RowRef, Source, Weigh, WeightsRef
from coordinator.decisions.admission import (
    Bounds,
    Judgement,
    bounds_of,
    implausible,
    inspect_stats,
    inspect_update,
    shape_of,
)
from coordinator.decisions.events import Inspected, InspectionFailed, WeighingDone
from coordinator.decisions.mixing_plan import mixture_of
from coordinator.decisions.rules import Rules
from coordinator.record.blobs import FloatReader, OpenFiles, StoredSet, checksum_of, read_bytes
from coordinator.record.model_forms import ModelForms, Payload
from coordinator.record.store import UPDATE, UPDATE_STATS, Staged, Store
from fedap_core.aggregation import TILE_COLUMNS
from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.measures import measured_channels
from fedap_core.model_spec import ModelSpec
from fedap_core.parts import variance_ranges
from fedap_core.strategies import Evidence, Measure, Phase
from protocol.encodings import DIFFERENCES
from protocol.errors import RemoteProtocolError
from protocol.limits import MIB, SLICE_BYTES
from protocol.sealed_sets import SEALED
from protocol.tensors import Layout, TensorSet

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Done(Generic[T]):
    """A finished job: its key, its answer or error, and the processor time it took."""

    key: T
    answer: object = None
    error: Exception | None = None
    cpu_s: float = 0.0


class ComputeThread(Generic[T]):
    """One thread that runs jobs. It calls `wake` whenever a job has ended."""

    def __init__(self, wake: Callable[[], None], clock: Callable[[], float]) -> None:
        self._wake = wake
        self._clock = clock
        self._jobs: queue.SimpleQueue[tuple[T, Callable[[], object]] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Done[T]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="compute", daemon=True)
        self._thread.start()

    def submit(self, key: T, job: Callable[[], object]) -> None:
        """Run this job after all jobs submitted before."""
        self._jobs.put((key, job))

    def finished(self) -> list[Done[T]]:
        """Return the jobs that ended since the last call, in order; never blocks."""
        ended: list[Done[T]] = []
        while not self._done.empty():
            ended.append(self._done.get_nowait())
        return ended

    def close(self) -> None:
        """Finish all submitted jobs, then end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (submitted := self._jobs.get()) is not None:
            key, job = submitted
            began = self._clock()
            try:
                done = Done(key=key, answer=job())
            except Exception as error:  # noqa: BLE001 - return any error: a dead thread would hang the run
                done = Done(key=key, error=error)
            self._done.put(Done(key=key, answer=done.answer, error=done.error, cpu_s=self._clock() - began))
            self._wake()


log = structlog.get_logger()

ROWS_HELD_BYTES = 384 * MIB
"""Most memory for mixed rows, including those still being sent: 1,000 members with a LeNet-5, for two rounds."""


class DamagedReports(InvalidInput):
    """Stored reports are damaged or missing. faults: path and fault of each."""

    def __init__(self, faults: Mapping[BlobRef, tuple[Path, str]]) -> None:
        path, wrong = next(iter(faults.values()))
        super().__init__(str(path), f"a file that {wrong}", "the report as it was admitted")
        self.faults = faults


class BaseGone(Exception):
    """An update is a difference to a model that a restart has lost. The member will send the update again in full."""


class Jobs:
    """The jobs of one run, all run in one thread."""

    def __init__(self, *, store: Store, forms: ModelForms, spec: ModelSpec, rules: Rules) -> None:
        self._store = store
        self._forms = forms
        self._spec = spec
        self._rules = rules
        self._limited: set[str] = set()
        self._tensors = {True: spec.shared(()), False: rules.strategy.travelling(spec)}
        """What updates hold, here and below: True in warm-up, which shares batch norm, False otherwise."""
        self._shapes = {warm: shape_of(tensors) for warm, tensors in self._tensors.items()}
        self._lengths: dict[bool, float] = {}
        """Norm of the initial model's trained values."""

    # ---- inspect

    def inspect(self, actions: Sequence[Inspect]) -> list[Inspected | InspectionFailed]:
        """Check staged reports; those admitted are durable when this returns, the others are dropped.

        All are written to disk together. If the disk fails, no member is at fault: those reports must be sent again.
        """
        answers: dict[Inspect, Inspected | InspectionFailed] = {}
        admitted: dict[BlobRef, int] = {}
        for action in actions:
            refs = refs_of(action)
            try:
                judgement, checksums = self._judge(action, refs)
            except (OSError, MemoryError, BaseGone) as error:
                answers[action] = _failed(action, error)
            except Exception as error:  # whatever one report contains, the others must be checked
                log.error("report.unreadable", participant=action.member, round=action.round_no + 1, exc_info=error)
                reason = f"cannot be read: {type(error).__name__}"
                answers[action] = Judgement(code="wrong-tensors", reason=reason).answer(action)
            else:
                admitted |= checksums
                answers[action] = judgement.answer(action)
            if refs[0] not in admitted:
                for ref in refs:
                    self._store.discard(ref)
        try:
            self._store.keep(admitted)
        except OSError as error:
            answers |= {action: _failed(action, error) for action in actions if refs_of(action)[0] in admitted}
        return [answers[action] for action in actions]

    def _judge(self, action: Inspect, refs: Sequence[BlobRef]) -> tuple[Judgement, dict[BlobRef, int]]:
        """Return the verdict and, if the report is admitted, the checksums of its tensor sets."""
        if not all(map(self._store.is_staged, refs)):
            reason = "the update lacks the requested statistics"
            return Judgement(code="bad-statistics", reason=reason), {}
        staged = [self._store.staged(ref) for ref in refs]
        try:
            judged, passed = Judgement(), None
            if action.kind == UPDATE:
                judged, passed = self._judge_update(action, staged[0])
            elif action.measure is Measure.NONE and staged[0].layout.specs and not self._rules.members_compute_rows:
                judged = Judgement(code="bad-statistics", reason="statistics that were not requested")
            boxed = self._rules.members_compute_rows and action.kind != UPDATE
            if judged.code is None and (action.measure is not Measure.NONE or boxed):
                statistics = self._judge_statistics(action, staged[-1])
                judged = statistics if isinstance(statistics, Judgement) else judged
        except RemoteProtocolError as fault:  # an infinity under f16
            judged = Judgement(code=fault.code, reason=str(fault))
        if judged.code is not None:
            return judged, {}
        first = checksum_of(_bytes(self._store.staged(refs[0]))) if passed is None else passed
        return judged, {refs[0]: first} | {
            ref: checksum_of(_bytes(one)) for ref, one in zip(refs[1:], staged[1:], strict=True)
        }

    def _judge_update(self, action: Inspect, staged: Staged) -> tuple[Judgement, int | None]:
        """Return the verdict and, if the update is in a file, the checksum of the bytes read."""
        layout = self._forms.updates(action.phase)
        if staged.layout != layout:
            return Judgement(code="wrong-tensors", reason=_difference(staged.layout, layout)), None
        if self._rules.sealing is not None:  # encrypted values cannot be checked
            return Judgement(), None
        given = self._given(action.sent, action.phase)
        if staged.encoding in DIFFERENCES:
            if staged.encoding != self._forms.upward:
                reason = f"a difference as {staged.encoding} where the plan has {self._forms.upward}"
                return Judgement(code="wrong-tensors", reason=reason), None
            if given is None:
                raise BaseGone(f"the model that the update of {action.member} is a difference to is no longer here")
            staged = self._store.restage(refs_of(action)[0], _sums(given, staged))
        start = self._forms.weights(WeightsRef(source=Source.INITIAL), action.phase)
        with OpenFiles() as files:
            values = FloatReader(staged, files)
            blocks = _blocks(values, FloatReader(given or start, files), layout.elements)
            bounds = self._bounds(start, action, action.limit if given is not None else None)
            directed = self._rules.strategy.looks_at_directions and action.phase is not Phase.WARMUP
            shape = self._shapes[action.phase is Phase.WARMUP]
            judged = inspect_update(blocks, shape=shape, bounds=bounds, train_loss=action.train_loss, directed=directed)
            if given is None:  # compared with the initial model, which says nothing about the length of one step
                judged = replace(judged, distance=None, direction="")
            return judged, None if staged.data is not None else values.checksum

    def _bounds(self, start: Payload, action: Inspect, typical: float | None) -> Bounds:
        warm = action.phase is Phase.WARMUP
        if warm not in self._lengths:
            with OpenFiles() as files:
                self._lengths[warm] = _length(FloatReader(start, files), self._shapes[warm].trained)
        return bounds_of(self._rules.admission, length=self._lengths[warm], typical=typical)

    def _given(self, sent: WeightsRef | None, phase: Phase) -> Payload | None:
        """Return the weights that the member was sent, if they still exist: old rows are deleted."""
        if sent is None:
            return None
        try:
            return self._forms.weights(sent, phase)
        except InvalidInput:
            return None

    def _judge_statistics(self, action: Inspect, staged: Staged) -> Judgement | BnStats:
        if self._rules.members_compute_rows:
            specs = staged.layout.specs
            box = len(specs) == 1 and (specs[0].name, specs[0].dtype) == (SEALED, "int64")
            return Judgement() if box else Judgement(code="bad-statistics", reason="statistics that are not sealed")
        tensors = TensorSet.staying(staged.layout, staged.encoding, _bytes(staged))
        least = self._rules.members.min_samples
        found = self._moments(tensors.arrays(), action.measure, samples=action.samples, least=least)
        if isinstance(found, Judgement):
            return found
        odd = implausible(
            found,
            announced=action.announced,
            max_statistic=self._rules.admission.max_statistic,
            per_position=action.measure is Measure.BN_INPUTS,
        )
        return odd or found

    def _moments(
        self, arrays: Mapping[str, NDArray[np.generic]], measure: Measure, *, samples: int, least: int
    ) -> Judgement | BnStats:
        full = self._rules.strategy.measures_covariance(measure)
        channels = measured_channels(self._spec, measure)
        return inspect_stats(arrays, samples=samples, channels=channels, covariance=full, min_samples=least)

    # ---- weigh

    def weigh(self, action: Weigh) -> WeighingDone:
        """Compute W from stored statistics."""
        try:
            stats = tuple(map(self._stored_moments, action.statistics, action.samples))
        except (InvalidInput, FileNotFoundError):
            self._require_whole(action.statistics)
            raise
        mixing = self._rules.strategy.mixing(Evidence(counts=action.samples, stats=stats))
        similarity = () if mixing.similarity is None else tuple(round(float(one), 4) for one in mixing.similarity)
        weights = tuple(tuple(map(float, row)) for row in mixing.weights)
        return WeighingDone(ticket=action.ticket, weights=weights, similarity=similarity)

    def _stored_moments(self, ref: BlobRef, samples: int) -> BnStats:
        blob = self._store.blob(ref)
        data = _bytes(blob)
        if checksum_of(data) != blob.checksum:
            raise changed(blob)
        tensors = TensorSet.staying(blob.layout, blob.encoding, data)
        measure = self._rules.strategy.round_measure if ref.kind == UPDATE_STATS else self._rules.first_measure
        found = self._moments(tensors.arrays(), measure, samples=samples, least=0)
        if isinstance(found, Judgement):
            raise InvalidInput(f"statistics of {ref.member}", found.reason, "those that were admitted")
        return found

    # ---- mix

    def aggregate(self, action: Aggregate) -> list[tuple[RowRef, Payload]]:
        """Mix a row for every receiver, in memory if they are small, otherwise in files. Rows are not durable, but the
        givers' blobs are; if the disk fails, incomplete rows are deleted."""
        try:
            return self._aggregate(action)
        except (InvalidInput, FileNotFoundError):
            self._require_whole(action.givers)
            raise

    def _require_whole(self, refs: Sequence[BlobRef]) -> None:
        """Raise DamagedReports if any of these files is damaged or missing."""
        faults = {ref: wrong for ref in refs if (wrong := self._store.fault_of(ref))}
        if faults:
            raise DamagedReports({ref: (self._store.path_of(ref), wrong) for ref, wrong in faults.items()})

    def _aggregate(self, action: Aggregate) -> list[tuple[RowRef, Payload]]:
        layout = self._forms.updates(action.phase)
        blobs = [self._store.blob(ref) for ref in action.givers]
        for ref, blob in zip(action.givers, blobs, strict=True):
            if blob.layout != layout:
                raise InvalidInput(f"update of {ref.member}", _difference(blob.layout, layout), "the plan's tensors")
        tensors = self._tensors[action.phase is Phase.WARMUP]
        mixture = mixture_of(action, self._rules.strategy, tensors)
        product = Product(mixture=mixture, rule=self._rules.strategy.robustness)
        layout = self._forms.rows(action.phase)
        forms = RowForms.of(
            action,
            blobs,
            layout,
            encoding=self._forms.encoding,
            upward=self._forms.upward,
            variances=variance_ranges(tensors),
        )
        fit = max(forms.row_sizes, default=0) <= SLICE_BYTES
        small = fit and self._forms.held_bytes + forms.held_bytes <= ROWS_HELD_BYTES
        paths = self._store.expect_rows(() if small else action.receivers)
        try:
            if self._rules.sealing is not None:
                rows = mix_sealed(action, blobs, paths, layout)
            elif small:
                rows = mix_in_memory(product, blobs, forms)
            else:
                rows = mix_files(product, blobs, paths, forms)
        except OSError:
            for path in paths:
                path.unlink(missing_ok=True)
            raise
        self._tell_limited(action, product)
        return list(zip(action.receivers, rows, strict=True))

    def _tell_limited(self, action: Aggregate, product: Product) -> None:
        """Log the members whose updates were limited, only when the set changes: it may be the same in every round."""
        kept = () if product.kept is None else product.kept
        found = {giver.member: float(one) for giver, one in zip(action.givers, kept, strict=False) if one < 1.0}
        if set(found) != self._limited:
            self._limited = set(found)
            log.warning("updates.limited", round=action.receivers[0].round_no, kept=found)


def refs_of(action: Inspect) -> tuple[BlobRef, ...]:
    """Return the tensor sets of a report: the one of its kind first, statistics sent with it last."""
    main = BlobRef(member=action.member, kind=action.kind, round_no=action.round_no)
    if action.kind != UPDATE or action.measure is Measure.NONE:
        return (main,)
    return main, BlobRef(member=action.member, kind=UPDATE_STATS, round_no=action.round_no)


def _failed(action: Inspect, error: Exception) -> InspectionFailed:
    reason = f"{type(error).__name__}: {error}"[:500]
    disk = not isinstance(error, BaseGone)
    return InspectionFailed(member=action.member, kind=action.kind, round_no=action.round_no, reason=reason, disk=disk)


def _blocks(
    values: FloatReader, sent: FloatReader | None, size: int
) -> Iterator[tuple[Float32Array, Float32Array | None]]:
    for start in range(0, size, TILE_COLUMNS):
        count = min(TILE_COLUMNS, size - start)
        yield values.block(start, count), None if sent is None else sent.block(start, count)


def _sums(given: Payload, staged: Staged) -> Iterator[Float32Array]:
    """Yield the sum of the weights sent and the reported difference, block by block."""
    with OpenFiles() as files:
        for added, base in _blocks(FloatReader(staged, files), FloatReader(given, files), staged.layout.elements):
            yield added if base is None else base + added


def _length(values: FloatReader, size: int) -> float:
    squared = 0.0
    for start in range(0, size, TILE_COLUMNS):
        squared += float(np.square(values.block(start, min(TILE_COLUMNS, size - start)), dtype=np.float64).sum())
    return math.sqrt(squared)


def _bytes(held: Staged | StoredSet) -> memoryview:
    """Return all wire bytes of a small set."""
    if held.data is not None:
        return held.data
    return memoryview(read_bytes(held.path, 0, held.layout.size_bytes(held.encoding)))


def _difference(got: Layout, expected: Layout) -> str:
    wanted = {spec.line for spec in expected.specs}
    odd = next((spec.line for spec in got.specs if spec.line not in wanted), "the order, or one is missing")
    return f"{len(got.specs)} tensors where the plan shares {len(expected.specs)}; what differs: {odd}"[:400]
