"""Average weights, in this one place: psi_i = sum_j w_ij psi_j (eq. 2) for all members at once.

Decides in which order numbers are multiplied and added, and thereby the bits of every personalised model. Independent
of members, layers and storage: `mix_tiles` gets functions that read and write the arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Protocol, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fedap_core.arrays import Float32Array, FloatArray, IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.mixing import check_mixing

TILE_COLUMNS = 65_536
"""Parameters mixed per product for up to TILE_MEMBERS. Constant, with the last tile padded with zeros: BLAS picks its
kernels by shape, so another width would change the last bits. 256 KiB per member keeps 20 members near the cache."""

TILE_MEMBERS = 64
_FEWEST_COLUMNS = 1024
"""With more members, tiles are narrower: scratch memory does not grow, and threads share even small models."""

_APART = 16
"""Values (64 bytes) between the rows of scratch. If rows were a power of two apart, the entries of one column would
compete for the same few cache lines."""

MAX_SPARE_BYTES = 2 * TILE_MEMBERS * TILE_COLUMNS * 4
"""Scratch memory kept from one product to the next."""

MAX_THREADS = 4
"""More threads would mostly wait for memory, and each has its own scratch tiles."""


def tile_columns(members: int) -> int:
    """Parameters mixed per product; must depend only on the number of givers."""
    shared = TILE_COLUMNS * TILE_MEMBERS // max(members, TILE_MEMBERS)
    return max(shared - shared % _FEWEST_COLUMNS, _FEWEST_COLUMNS)


T = TypeVar("T", bound=np.generic)
T_co = TypeVar("T_co", bound=np.generic, covariant=True)


class TileProduct(Protocol[T_co]):
    """The scratch memory of one thread for a tile: `tile` for the givers' columns, `product` for the result."""

    def tile(self, width: int) -> NDArray[T_co]: ...

    def product(self, width: int) -> NDArray[T_co]: ...


TileAccess = Callable[[int, Float32Array], None]
"""(first column, rows by columns): fills or stores one tile of all rows. Every row is contiguous."""


def mix(
    mixing: FloatArray, updates: Sequence[Float32Array], out: Sequence[Float32Array], *, threads: int | None = None
) -> None:
    """Write out[i] = sum_j mixing[i, j] * updates[j] for every row of the mixing matrix.

    mixing: (r, m), rows sum to 1. updates: m arrays (P,), finite: a NaN spreads even through weight 0, so leave absent
    members out. out: r arrays (P,), overwritten; they may be the updates themselves (r == m), but must not otherwise
    overlap them or each other. Fastest if either are the rows of one table. P == 0 is legal: a strategy may share
    nothing. threads: how many share the tiles; by default as many as BLAS would use, up to MAX_THREADS.

    Law: the bits depend only on `mixing` and `updates`; not on threads, P's remainder, working in place, or where the
    rows are in memory. Scratch memory is (r + m) tiles per thread, never a second copy of all models.
    """
    parameters = _check(mixing, updates, out)
    weights = mixing.astype(np.float32)
    table, source = _as_table(out, writeable=True), _as_table(updates)
    columns = tile_columns(len(updates))
    tiles = iter(range(0, parameters, columns))  # each thread takes the next one

    def work() -> None:
        with _borrowed_scratch(weights) as scratch:
            for start in tiles:
                stop = min(start + columns, parameters)
                if source is not None and stop - start == columns:  # same bits as with a copy, without copying
                    mixed = scratch.product(weights, stop - start, source[:, start:stop])
                else:
                    for row, update in zip(scratch.tile(stop - start), updates, strict=True):
                        row[:] = update[start:stop]
                    mixed = scratch.product(weights, stop - start)
                if table is not None:  # in one operation: threads contend between operations
                    table[:, start:stop] = mixed
                else:
                    for target, row in zip(out, mixed, strict=True):
                        target[start:stop] = row

    _share(work, min(_threads(threads), -(-parameters // columns)))


def mix_tiles(
    mixing: FloatArray, parameters: int, *, read: TileAccess, write: TileAccess, threads: int | None = None
) -> None:
    """Compute the same product, bit for bit, over rows that need not be in memory: P = `parameters` values each.

    mixing: (r, m). read(start, tile) fills tile (m, width) with values start .. start + width - 1 of every update;
    write(start, mixed) takes the same columns of all r results, and must copy what it keeps. All tiles but the last are
    `tile_columns(m)` wide, and a tile is read before it is written, so both may work on the same rows. Tiles are read
    one at a time and in order, and written likewise, by whichever thread has them: while one reads, others multiply or
    write. By default there are at least two threads, because reading and writing may block.
    """
    check_mixing(mixing)
    weights = mixing.astype(np.float32)

    @contextmanager
    def borrowed() -> Iterator[_WeightedScratch]:
        with _borrowed_scratch(weights) as scratch:
            yield _WeightedScratch(scratch, weights)

    in_tiles(parameters, tile_columns(mixing.shape[1]), borrowed, read=read, write=write, threads=threads)


Entries = tuple[IndexArray, Float32Array]
"""A sparse row: the positions of its givers, ascending, and their weights."""


def entries_of(mixing: FloatArray) -> list[Entries]:
    """Return the nonzero entries of every row. mixing: (r, m)."""
    check_mixing(mixing)
    return [(np.flatnonzero(row), row[row != 0.0].astype(np.float32)) for row in mixing]


def mix_sparse(mixing: FloatArray, parameters: int, *, read: TileAccess, write: TileAccess) -> None:
    """Compute the same sums if rows of `mixing` have few entries: each row is computed only from its own givers.

    mixing: (r, m). The work grows with the number of entries instead of r * m. The last bits differ from `mix_tiles`,
    but do not depend on how the rows are stored: products are added one giver after another.
    """
    entries = entries_of(mixing)

    @contextmanager
    def borrowed() -> Iterator[_SparseScratch]:
        yield _SparseScratch(mixing.shape[1], entries)

    in_tiles(parameters, tile_columns(mixing.shape[1]), borrowed, read=read, write=write)


def mix_entries(entries: Sequence[Entries], updates: Sequence[Float32Array], out: Sequence[Float32Array]) -> None:
    """Compute `mix_sparse`, bit for bit, over rows in memory or in a memory map. Only the givers' rows are read.

    entries: one row for each of `out`, which must not overlap the updates.
    """
    rows = iter(range(len(entries)))  # each thread takes the next one

    def work() -> None:
        scratch = np.empty(TILE_COLUMNS, dtype=np.float32)
        for number in rows:
            (places, weights), target = entries[number], out[number]
            givers = [updates[place] for place in places]
            for start in range(0, target.size, TILE_COLUMNS):
                piece = slice(start, start + TILE_COLUMNS)
                _add_up(weights, [giver[piece] for giver in givers], target[piece], scratch)

    _share(work, min(_threads(None), len(entries)))


def _add_up(weights: Float32Array, givers: Sequence[Float32Array], out: Float32Array, scratch: Float32Array) -> None:
    """Set out = sum of weights times givers, from first to last; each value is independent of its neighbours."""
    product = scratch[: out.size]
    np.multiply(givers[0], weights[0], out=out)
    for weight, giver in zip(weights[1:], givers[1:], strict=True):
        np.multiply(giver, weight, out=product)
        np.add(out, product, out=out)


def in_tiles(
    parameters: int,
    columns: int,
    borrowed: Callable[[], AbstractContextManager[TileProduct[T]]],
    *,
    read: Callable[[int, NDArray[T]], None],
    write: Callable[[int, NDArray[T]], None],
    threads: int | None = None,
) -> None:
    """Compute products tile by tile, as in `mix_tiles`. borrowed: provides the scratch memory of one thread."""
    count = -(-parameters // columns)
    tiles = iter(range(count))  # each thread takes the next one
    reading, writing = _Turns(), _Turns()

    def work() -> None:
        with borrowed() as scratch, reading.ended_by_failure(), writing.ended_by_failure():
            for number in tiles:
                start = number * columns
                width = min(columns, parameters - start)
                with reading.turn(number):
                    read(start, scratch.tile(width))
                mixed = scratch.product(width)
                with writing.turn(number):
                    write(start, mixed)

    workers = max(_threads(None), 2) if threads is None else _threads(threads)
    _share(work, min(workers, count))


def _share(work: Callable[[], None], threads: int) -> None:
    """Run `work` in so many threads, each with single-threaded BLAS: splitting a product would change the last bits."""

    def alone() -> None:
        with one_blas_thread():  # some libraries keep the setting per thread
            work()

    if threads < 2:
        alone()
        return
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(alone) for _ in range(threads)]:
            done.result()


class _Turns:
    """Lets threads take turns, by number from 0. If one fails, the waiting ones fail with the same error."""

    def __init__(self) -> None:
        self._next = 0
        self._failure: BaseException | None = None
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, number: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._next == number or self._failure is not None)
            if self._next != number and self._failure is not None:
                raise self._failure
        yield
        with self._changed:
            self._next += 1
            self._changed.notify_all()

    @contextmanager
    def ended_by_failure(self) -> Iterator[None]:
        """Release all waiting threads if the body fails."""
        try:
            yield
        except BaseException as failure:
            with self._changed:
                self._failure = failure
                self._changed.notify_all()
            raise


class _Scratch:
    """One tile of every giver and of every receiver: the operands whose shape determines the bits."""

    def __init__(self, rows: int, members: int) -> None:
        columns = tile_columns(members)
        self.givers = np.zeros((members, columns + _APART), dtype=np.float32)[:, :columns]
        self.receivers = np.empty((rows, columns + _APART), dtype=np.float32)[:, :columns]
        self._used = 0

    def tile(self, width: int) -> Float32Array:
        """Return the memory for `width` columns of the givers; the rest is zeros."""
        self.givers[:, width : self._used] = 0.0  # the columns after these were never written to
        self._used = width
        return self.givers[:, :width]

    def product(self, weights: Float32Array, width: int, givers: Float32Array | None = None) -> Float32Array:
        """Return the first columns of weights @ givers; valid until the next call. givers: None means `self.givers`."""
        np.matmul(weights, self.givers if givers is None else givers, out=self.receivers)
        return self.receivers[:, :width]


class _WeightedScratch:
    """Scratch memory with the weights of its products."""

    def __init__(self, scratch: _Scratch, weights: Float32Array) -> None:
        self._scratch = scratch
        self._weights = weights

    def tile(self, width: int) -> Float32Array:
        return self._scratch.tile(width)

    def product(self, width: int) -> Float32Array:
        return self._scratch.product(self._weights, width)


class _SparseScratch:
    """One tile of every giver and receiver, and each receiver's (positions of its givers, weights)."""

    def __init__(self, members: int, entries: Sequence[Entries]) -> None:
        columns = tile_columns(members)
        self._givers = np.zeros((members, columns), dtype=np.float32)
        self._product = np.empty(columns, dtype=np.float32)
        self._receivers = np.empty((len(entries), columns), dtype=np.float32)
        self._entries = entries

    def tile(self, width: int) -> Float32Array:
        return self._givers[:, :width]

    def product(self, width: int) -> Float32Array:
        for row, (places, weights) in zip(self._receivers, self._entries, strict=True):
            _add_up(weights, [self._givers[place, :width] for place in places], row[:width], self._product)
        return self._receivers[:, :width]


_spare: list[_Scratch] = []
"""At most one scratch, of the last shape: clearing 10 MB of new memory takes longer than mixing a small model."""


@contextmanager
def _borrowed_scratch(weights: Float32Array) -> Iterator[_Scratch]:
    try:
        scratch = _spare.pop()
    except IndexError:
        scratch = None
    rows, members = weights.shape
    if scratch is None or (len(scratch.receivers), len(scratch.givers)) != (rows, members):
        scratch = _Scratch(rows, members)
    yield scratch
    if (rows + members) * tile_columns(members) * 4 <= MAX_SPARE_BYTES:
        _spare[:] = [scratch]


def _as_table(rows: Sequence[Float32Array], *, writeable: bool = False) -> Float32Array | None:
    """Return equally spaced rows as one (r, P) array over the same memory; None if they are not, or if they must be
    writeable and are not."""
    first = rows[0]
    places = [row.__array_interface__["data"][0] for row in rows]
    stride = places[1] - places[0] if len(rows) > 1 else first.nbytes
    even = all(place == places[0] + number * stride for number, place in enumerate(places))
    if not even or stride < first.nbytes or stride % first.itemsize:
        return None
    if not all(row.flags.c_contiguous and (row.flags.writeable or not writeable) for row in rows):
        return None
    shape, strides = (len(rows), first.size), (stride, first.itemsize)
    return as_strided(first, shape=shape, strides=strides, writeable=writeable)


def _threads(asked: int | None) -> int:
    """Return the number of threads. The default is BLAS's: the number of cores, or what the environment allows."""
    if asked is None:
        return min(max((one["num_threads"] for one in _blas().select(user_api="blas").info()), default=1), MAX_THREADS)
    if asked < 1:
        raise InvalidInput("threads", asked, "at least 1")
    return asked


def one_blas_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread: how a product is split among threads changes its last bits."""
    limit: AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return limit


@cache
def _blas() -> ThreadpoolController:
    """Return the controller of numpy's BLAS, cached: searching the loaded libraries takes milliseconds."""
    return ThreadpoolController()


def _check(mixing: FloatArray, updates: Sequence[Float32Array], out: Sequence[Float32Array]) -> int:
    """Refuse arrays that do not match; return P."""
    check_mixing(mixing)
    if mixing.shape != (len(out), len(updates)):
        expected = f"({len(out)}, {len(updates)}): outputs by updates"
        raise InvalidInput("mixing", f"shape {mixing.shape}", expected)
    shape = (updates[0].size,)
    for field, arrays in (("updates", updates), ("out", out)):
        for number, array in enumerate(arrays):
            if array.shape != shape or array.dtype != np.float32:
                raise InvalidInput(f"{field}[{number}]", f"{array.dtype} {array.shape}", f"float32 {shape}")
    return shape[0]
