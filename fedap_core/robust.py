"""Limit how far a single member can move the others: mixing weights are limited by the distances between updates.

Decides weights, and can add one more giver: a coordinate-wise centre of all updates. Both engines mix through
`robust_mix`, so that their bits agree. If nothing has to be limited, the weights are unchanged and the product is the
plain one, bit for bit. Independent of names and statistics; admission is decided elsewhere.
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
"""none: the plain product. limit: outliers give less, no member more than a maximum share. median, trimmed-mean: a
member takes from the others this coordinate-wise centre of all updates, whatever the weights."""

FEWEST_TO_COMPARE = 3
"""Givers needed for distances to show the outlier: of three, one may lie."""

TENSOR_SLACK = 3.0
"""How many times more a single tensor may differ than the whole: small tensors vary more between members."""

STATISTIC_SLACK = 8.0
"""The same for a tensor of running statistics: they follow the data, which may have another scale at each member."""

TENSOR_FLOOR = 0.3
"""Least scale of a tensor, relative to evenly spread differences: some tensors never change."""

DROPPED_BEYOND = 2.0
"""Multiple of the limit beyond which an update counts as absent instead of being scaled back."""

SHARE_OF_FEW = 1.25
SHARE_OF_FEWER = 2.0
"""Among few givers each may have this multiple of its equal share, because a lower cap would leave weight to nobody;
the larger one applies below FEW givers, whose honest shares differ a lot."""

FEW = 4


@dataclass(frozen=True, kw_only=True)
class Robustness:
    """rule: one of RULES. factor: how many times the typical distance between updates one may be from the others.

    max_share: largest share of one member: of a common model, or of what a personal model takes from others.
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
    """One product. weights: (r, m). own: for each of r receivers the position of its own update among the m, or None.

    personal: a receiver's own update is not limited; weight taken from others goes to it. Otherwise there is one model
    for all. sizes: values of each tensor, in order; training changes the first `trained` of these tensors, the rest are
    running statistics. comparison: set if weights also depend on the updates' values. sparse: rows have few entries,
    and only these are mixed.
    """

    weights: FloatArray
    own: tuple[int | None, ...]
    personal: bool
    sizes: tuple[int, ...]
    trained: int
    comparison: UpdateComparison | None = None
    sparse: bool = False


def robust_mix(mixture: Mixture, rule: Robustness, *, read: TileAccess, write: TileAccess) -> FloatArray:
    """Mix like `aggregation.mix_tiles`, under a rule. Return (m,): how much of each giver counted, 1 for all of it.

    read runs once more over all columns for a comparison, and once more under the rule `limit`.
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
    """Do the same over rows in memory; `out` may be the updates themselves."""
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
    """(m, c) -> (c,): the median of each column, or its mean without a fifth of the values at either end."""
    ordered = np.sort(updates, axis=0)
    members = len(updates)
    cut = (members - 1) // 2 if rule == "median" else max(math.floor(0.2 * members), 1)
    return np.asarray(ordered[cut : members - cut].mean(axis=0, dtype=np.float64), dtype=np.float32)


def squared_distances(sizes: Sequence[int], givers: int, read: TileAccess) -> FloatArray:
    """Return (T, m, m): squared distance between every two updates, tensor by tensor, in float64.

    Computed from differences to the first update, tile by tile: products of whole weights would lose all digits of
    steps that are a thousandth of them.
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
    """Return (m,): how much of each update counts: 1 if it lies among the others, less if it does not, 0 far away.

    The position of an update is the median of its distances to the others; typical is the median of these (lower
    medians: of three updates, one may lie). All trained values together and each tensor are checked, so that a large
    step cannot hide in a small tensor.
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
    """Return (r, m): the weights with shares capped and outliers scaled back. Rows that need neither are unchanged.

    The removed weight goes to the receiver's own update if the model is personal, otherwise to fully kept givers.
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
            continue  # no fully kept giver is left: keep all weights rather than none
        row -= lost
        shares = row[heirs] if row[heirs].any() else np.ones(int(heirs.sum()))
        row[heirs] += lost.sum() * shares / shares.sum()
    return weights


def _cap(row: FloatArray, mine: int | None, max_share: float) -> None:
    """Cap a row in place. mine: the receiver's own entry, which is not capped; the cap is a share of the rest."""
    peers = np.ones(len(row), dtype=np.bool_)
    if mine is not None:
        peers[mine] = False
    total = float(row[peers].sum())
    # a giver without weight in a common model does not count as one
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
    """Return (r, m + 1): the own part if the model is personal, everything else from the centre, the last column."""
    rows, givers = mixture.weights.shape
    weights = np.zeros((rows, givers + 1))
    for row, before, own in zip(weights, mixture.weights, mixture.own, strict=True):
        if mixture.personal and own is not None:
            row[own] = before[own]
        row[-1] = 1.0 - row[:-1].sum()
    return weights
