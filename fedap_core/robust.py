"""How far a single member may move the others: mixing weights, limited by how far apart the updates lie.

Decides weights, and one more giver: a centre of all updates, coordinate by coordinate. Both engines mix through
`robust_mix`, so that their bits agree. Where nothing has to be limited, weights come back as they were and the product
is the plain one, bit for bit. Knows neither names nor statistics; who may take part at all is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedap_core.aggregation import TileAccess, mix, mix_sparse, mix_tiles, one_blas_thread, tile_columns
from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.comparison import UpdateComparison, compared_weights
from fedap_core.errors import InvalidInput

RULES = ("none", "limit", "median", "trimmed-mean")
"""none: the plain product. limit: outliers give less, nobody more than a share. median, trimmed-mean: what a member
takes from the others is that centre of all updates, each coordinate by itself, whatever the weights."""

FEWEST_TO_COMPARE = 3
"""Givers from which distances say who is odd: of three, one may lie."""

TENSOR_SLACK = 3.0
"""A single tensor may differ by so many times more than the whole: small ones vary more from member to member."""

STATISTIC_SLACK = 8.0
"""The same for a tensor of running statistics: they follow the data, which may be scaled differently everywhere."""

TENSOR_FLOOR = 0.3
"""Least scale of a tensor, as a share of what it would be if differences were spread evenly: some never move."""

DROPPED_BEYOND = 2.0
"""So many times over the limit, an update counts as absent instead of being scaled back."""

SHARE_OF_FEW = 1.25
SHARE_OF_FEWER = 2.0
"""Among few givers each may have so many times its equal share, because a cap below that would leave weight to nobody;
more where they are fewer than FEW, and honest shares are far apart."""

FEW = 4


@dataclass(frozen=True, kw_only=True)
class Robustness:
    """rule: one of RULES. factor: how many times the typical distance between updates one may lie from the others.

    max_share: most that one member gives: of a common model, or of what a personal one takes from others.
    """

    rule: str = "none"
    factor: float = 2.0
    max_share: float = 0.25

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise InvalidInput("robust", self.rule, f"one of {', '.join(RULES)}")
        if not 1.0 <= self.factor < math.inf:
            raise InvalidInput("robust_factor", self.factor, "a finite number from 1")
        if not 0.0 < self.max_share <= 1.0:
            raise InvalidInput("max_share", self.max_share, "a number above 0, up to 1")


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """One product. weights: (r, m). own: for each of r receivers the place of its own update among the m, or None.

    personal: a receiver's own update is its own business; what is taken from others goes to it. Otherwise there is one
    model for all. sizes: values of each tensor, in order; the first `trained` of these tensors are moved by training,
    those after them are running statistics. comparison: where weights follow from the updates' values as well. sparse:
    rows have few entries, and are to be mixed by these alone.
    """

    weights: FloatArray
    own: tuple[int | None, ...]
    personal: bool
    sizes: tuple[int, ...]
    trained: int
    comparison: UpdateComparison | None = None
    sparse: bool = False


def robust_mix(mixture: Mixture, rule: Robustness, *, read: TileAccess, write: TileAccess) -> FloatArray:
    """Mix as `aggregation.mix_tiles` does, under a rule. Returns (m,): how much of each giver counted, 1 for all of it.

    read is called once more over all columns for a comparison, and once more under the rule `limit`.
    """
    if mixture.comparison is not None:
        weights = compared_weights(mixture.comparison, mixture.weights, mixture.own, sizes=mixture.sizes, read=read)
        mixture = replace(mixture, weights=weights, comparison=None)
    givers = mixture.weights.shape[1]
    whole = np.ones(givers)
    parameters = sum(mixture.sizes)
    product = mix_sparse if mixture.sparse else mix_tiles
    if rule.rule == "none" or givers < FEWEST_TO_COMPARE:
        product(mixture.weights, parameters, read=read, write=write)
        return whole
    if rule.rule == "limit":
        squared = squared_distances(mixture.sizes, givers, read)
        kept = kept_shares(squared, mixture.sizes, trained=mixture.trained, factor=rule.factor)
        weights = limited(mixture, kept, max_share=rule.max_share)
        product(weights, parameters, read=read, write=write)
        return kept

    def read_with_centre(start: int, tile: Float32Array) -> None:
        read(start, tile[:-1])
        tile[-1] = centre(tile[:-1], rule.rule)

    mix_tiles(_towards_centre(mixture), parameters, read=read_with_centre, write=write)
    return whole


def robust_mix_rows(
    mixture: Mixture, rule: Robustness, updates: Sequence[Float32Array], out: Sequence[Float32Array]
) -> FloatArray:
    """The same over rows in memory: out may be the updates themselves."""
    if rule.rule == "none" and mixture.comparison is None and not mixture.sparse:
        mix(mixture.weights, updates, out)
        return np.ones(len(updates))

    def read(start: int, tile: Float32Array) -> None:
        for row, update in zip(tile, updates, strict=True):
            row[:] = update[start : start + row.size]

    def write(start: int, mixed: Float32Array) -> None:
        for target, row in zip(out, mixed, strict=True):
            target[start : start + row.size] = row

    return robust_mix(mixture, rule, read=read, write=write)


def centre(updates: Float32Array, rule: str) -> Float32Array:
    """(m, c) -> (c,): the median of each column, or its mean without the fifth of the values at either end."""
    ordered = np.sort(updates, axis=0)
    members = len(updates)
    cut = (members - 1) // 2 if rule == "median" else max(math.floor(0.2 * members), 1)
    return np.asarray(ordered[cut : members - cut].mean(axis=0, dtype=np.float64), dtype=np.float32)


def squared_distances(sizes: Sequence[int], givers: int, read: TileAccess) -> FloatArray:
    """(T, m, m): squared distance between every two updates, tensor by tensor, in float64.

    From the differences to the first update, tile by tile: products of whole weights would lose every digit of steps
    that are a thousandth of them.
    """
    found = np.zeros((len(sizes), givers, givers))
    parameters, columns = sum(sizes), tile_columns(givers)
    ends = np.cumsum(np.asarray([0, *sizes]))
    with one_blas_thread():
        for start in range(0, parameters, columns):
            stop = min(start + columns, parameters)
            tile = np.empty((givers, stop - start), dtype=np.float32)
            read(start, tile)
            apart = tile.astype(np.float64)
            apart -= apart[0].copy()
            first = int(np.searchsorted(ends, start, side="right")) - 1
            for tensor in range(first, len(sizes)):
                if ends[tensor] >= stop:
                    break
                piece = apart[:, max(ends[tensor] - start, 0) : ends[tensor + 1] - start]
                product = piece @ piece.T
                lengths = product.diagonal()
                found[tensor] += lengths[:, None] + lengths[None, :] - 2.0 * product
    return np.maximum(found, 0.0)


def kept_shares(squared: FloatArray, sizes: Sequence[int], *, trained: int, factor: float) -> FloatArray:
    """(m,): how much of each update counts: 1 where it lies among the others, less where it does not, 0 far away.

    An update's place is the median of its distances to the others; typical is the median of these (lower ones: of three
    updates, one may lie). All that is trained and each tensor are looked at, so that nobody hides a large step in a
    small one.
    """
    everything = _places(np.sqrt(squared[:trained].sum(axis=0)))
    typical = _lower_median(everything)
    excess = _ratio(everything, typical) / factor
    parameters = max(sum(sizes[:trained]), 1)
    for tensor, (distances, size) in enumerate(zip(squared, sizes, strict=True)):
        places = _places(np.sqrt(distances))
        floor = TENSOR_FLOOR * typical * math.sqrt(size / parameters)
        slack = factor * (TENSOR_SLACK if tensor < trained else STATISTIC_SLACK)
        excess = np.maximum(excess, _ratio(places, max(_lower_median(places), floor)) / slack)
    kept = np.where(excess <= 1.0, 1.0, 1.0 / np.maximum(excess, 1.0))
    return np.asarray(np.where(excess > DROPPED_BEYOND, 0.0, kept), dtype=np.float64)


def _places(distances: FloatArray) -> FloatArray:
    return np.asarray([_lower_median(np.delete(row, i)) for i, row in enumerate(distances)])


def _lower_median(values: FloatArray) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])


def _ratio(values: FloatArray, scale: float) -> FloatArray:
    return values / scale if scale > 0.0 else np.where(values > 0.0, np.inf, 1.0)


def limited(mixture: Mixture, kept: FloatArray, *, max_share: float) -> FloatArray:
    """(r, m): the weights, no giver beyond its share, outliers scaled back. Rows that need neither are unchanged.

    What is taken away goes to the receiver's own update where the model is personal, else to those fully kept.
    """
    weights = mixture.weights.copy()
    for row, own in zip(weights, mixture.own, strict=True):
        mine = own if mixture.personal else None
        _cap(row, mine, max_share)
        lost = row * (1.0 - kept)
        if mine is not None:
            lost[mine] = 0.0
        if not lost.any():
            continue
        heirs = np.zeros(len(row), dtype=np.bool_)
        if mine is not None:
            heirs[mine] = True
        else:
            heirs = (kept == 1.0) & (row > 0.0)
        if not heirs.any():
            continue  # nobody is left to listen to: better all of it than nothing
        row -= lost
        shares = row[heirs] if row[heirs].any() else np.ones(int(heirs.sum()))
        row[heirs] += lost.sum() * shares / shares.sum()
    return weights


def _cap(row: FloatArray, mine: int | None, max_share: float) -> None:
    """In place. mine: the entry that is nobody's gift; the cap is a share of the rest."""
    peers = np.ones(len(row), dtype=np.bool_)
    if mine is not None:
        peers[mine] = False
    total = float(row[peers].sum())
    # Who is left out of a common model makes room for nobody.
    there = peers if mine is not None else peers & (row > 0.0)
    count = max(int(there.sum()), 1)
    cap = total * max(max_share, min((SHARE_OF_FEW if count >= FEW else SHARE_OF_FEWER) / count, 1.0))
    capped = np.zeros(len(row), dtype=np.bool_)
    while (over := peers & ~capped & (row > cap)).any():
        excess = float((row[over] - cap).sum())
        row[over] = cap
        capped |= over
        free = peers & ~capped & (row > 0.0)
        if free.any():
            row[free] += excess * row[free] / row[free].sum()
        elif mine is not None:
            row[mine] += excess
        else:
            row[peers] += excess / int(peers.sum())
            return


def _towards_centre(mixture: Mixture) -> FloatArray:
    """(r, m + 1): one's own part where the model is personal, everything else from the centre, which comes last."""
    rows, givers = mixture.weights.shape
    weights = np.zeros((rows, givers + 1))
    for row, before, own in zip(weights, mixture.weights, mixture.own, strict=True):
        if mixture.personal and own is not None:
            row[own] = before[own]
        row[-1] = 1.0 - row[:-1].sum()
    return weights
