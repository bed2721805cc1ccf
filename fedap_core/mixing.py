"""Decide how much of each member's update goes into each member's next model: the mixing matrix W (eq. 7-8).

Row i belongs to the member that receives, column j to the member that gives. Every matrix returned by this module is
finite, >= 0, and its rows sum to 1. Independent of parameters and of why a member is absent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedap_core.arrays import BoolArray, FloatArray, IndexArray
from fedap_core.errors import InvalidInput

ROW_SUM_TOLERANCE = 1e-9
"""Rounding over thousands of members stays far below this; a wrong rule does not."""


def mixing_rows(distances: FloatArray, places: Sequence[int], *, self_weight: float) -> FloatArray:
    """Return some rows of `mixing_from_distances`, bit for bit, from only these rows of the distances.

    distances: (r, n), n > 1, from the members at `places` to all. Returns (r, n).
    """
    _check_self_weight(self_weight)
    diagonal = np.arange(len(distances)), np.asarray(places)
    others = distances.astype(np.float64)
    others[diagonal] = np.inf
    nearest = np.broadcast_to(others.min(axis=1, keepdims=True), others.shape)
    closeness = np.divide(nearest, others, out=np.ones_like(others), where=others > 0)
    mixing = (1.0 - self_weight) * closeness / closeness.sum(axis=1, keepdims=True)
    mixing[diagonal] = self_weight
    return np.asarray(mixing, dtype=np.float64)


def keep_nearest(mixing: FloatArray, places: Sequence[int], *, usable: BoolArray, neighbours: int) -> FloatArray:
    """Restrict every row to its `neighbours` heaviest usable givers. mixing: (r, n), rows of members `places`.

    The weight of the dropped givers goes to the kept ones in proportion; the diagonal keeps its weight. A row with no
    more givers than that is unchanged, bit for bit. Of equally heavy givers the first are kept. A row without any
    usable giver is unchanged: `restrict` handles it.
    """
    found = mixing.astype(np.float64)
    for row, place in zip(found, places, strict=True):
        weights = np.where(usable, row, 0.0)
        weights[place] = 0.0
        there = np.flatnonzero(weights)
        others = np.flatnonzero(row)
        if not there.size or (others != place).sum() <= neighbours:
            continue
        kept = there[np.argsort(-weights[there], kind="stable")[:neighbours]]
        total, own = row.sum() - row[place], row[place]
        shares = weights[kept] / weights[kept].sum() * total
        row[:] = 0.0
        row[kept], row[place] = shares, own
    return found


def mixing_from_distances(distances: FloatArray, *, self_weight: float) -> FloatArray:
    """FedAP's W: the closer, the heavier (eq. 7-8; self_weight is the paper's lambda).

    distances: (n, n), symmetric, >= 0, zero diagonal. Returns (n, n) with self_weight on the diagonal, the rest in
    proportion to 1 / distance. Twins (distance 0) share the off-diagonal weight equally; a lone client gets [[1.]].
    """
    _check_distances(distances)
    _check_self_weight(self_weight)
    if len(distances) == 1:
        return np.ones((1, 1))
    others = distances.astype(np.float64)
    np.fill_diagonal(others, np.inf)
    # (smallest / d) is 1 / d up to a factor per row that the normalisation removes, and cannot overflow; if the
    # smallest is 0, only the twins get weight.
    nearest = np.broadcast_to(others.min(axis=1, keepdims=True), others.shape)
    closeness = np.divide(nearest, others, out=np.ones_like(others), where=others > 0)
    mixing = (1.0 - self_weight) * closeness / closeness.sum(axis=1, keepdims=True)
    np.fill_diagonal(mixing, self_weight)
    return np.asarray(mixing, dtype=np.float64)


def floored_distances(distances: FloatArray, *, floor: float) -> FloatArray:
    """Raise distances to at least `floor` times the median of a member's distances to the others (the larger of two).

    distances: (n, n), symmetric, zero diagonal. Returns (n, n) of the same kind. Without it, a member that copies
    another's statistics would be its only peer: next to a distance of 0, no other member gets any weight.
    """
    _check_distances(distances)
    members = len(distances)
    if members < 3:
        return distances
    medians = np.sort(distances, axis=1)[:, 1 + (members - 1) // 2]  # skip the own distance, which is 0
    least = floor * np.maximum(medians[:, None], medians[None, :])
    np.fill_diagonal(least, 0.0)
    return np.asarray(np.maximum(distances, least), dtype=np.float64)


def mixing_from_counts(counts: FloatArray | IndexArray) -> FloatArray:
    """FedAvg's W: every row is counts / sum(counts). counts: (n,), >= 0, not all 0; ones give the plain mean."""
    weights = np.asarray(counts, dtype=np.float64)
    if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InvalidInput("counts", weights, "one number >= 0 per member, not all 0")
    weights = weights / weights.max()  # so that their sum cannot overflow
    return np.broadcast_to(weights / weights.sum(), (weights.size, weights.size))  # one row in memory for all members


def identity_mixing(n: int) -> FloatArray:
    """Every member keeps its own model. Returns (n, n)."""
    if n < 1:
        raise InvalidInput("members", n, "at least one")
    return np.eye(n)


def cap_peer_weight(mixing: FloatArray, *, max_peer_weight: float, places: Sequence[int] | None = None) -> FloatArray:
    """Limit every peer's weight in any row to max_peer_weight. mixing: (n, n). Returns (n, n).

    places: the members whose rows these are, if the matrix has only some rows, (r, n).

    The excess of a peer goes to the row's uncapped peers in proportion to their weights, again up to the cap, and to
    the member itself once all peers with any weight are capped. Rows below the cap are unchanged, bit for bit. Protects
    against a member that copies another's statistics to become its twin. Apply it last: `restrict` rescales.
    """
    if places is None:
        _check_square(mixing)
    if not 0.0 <= max_peer_weight <= 1.0:
        raise InvalidInput("max_peer_weight", max_peer_weight, "a number from 0 to 1")
    mine = np.arange(len(mixing)), np.arange(len(mixing)) if places is None else np.asarray(places)
    peers = mixing.astype(np.float64)
    peers[mine] = 0.0
    total = peers.sum(axis=1, keepdims=True)
    capped = np.zeros(mixing.shape, dtype=np.bool_)
    while True:  # every iteration caps at least one more entry, so n suffice
        free = np.where(capped, 0.0, peers)
        room = np.maximum(total - max_peer_weight * capped.sum(axis=1, keepdims=True), 0.0)
        held = free.sum(axis=1, keepdims=True)
        filled = np.where(capped, max_peer_weight, _shares(free, held) * room)
        filled = np.where(capped.any(axis=1, keepdims=True), filled, peers)
        over = filled > max_peer_weight
        if not over.any():
            break
        capped |= over
    left = np.maximum(total - filled.sum(axis=1, keepdims=True), 0.0)
    filled[mine] = mixing[mine] + left[:, 0]
    return filled


def age_discount(ages: FloatArray | IndexArray, *, exponent: float) -> FloatArray:
    """Return the discount of updates by age: (1 + age) ** -exponent, in [0, 1]. ages: (n,), >= 0.

    exponent 0 ignores age; infinity drops every update that is not of this round.
    """
    age = np.asarray(ages, dtype=np.float64)
    if age.ndim != 1 or not np.isfinite(age).all() or (age < 0).any():
        raise InvalidInput("ages", age, "one finite number >= 0 per member")
    if not exponent >= 0.0:
        raise InvalidInput("exponent", exponent, "a number >= 0")
    return np.power(1.0 + age, -exponent)


def age_to_self(mixing: FloatArray, *, ages: FloatArray | IndexArray, exponent: float) -> FloatArray:
    """Continuous mode: discount peers by age and move the rest to the diagonal. mixing: (n, n), ages: (n,).

    Off-diagonal w_ij * (1 + age_j) ** -exponent; the rest goes to the diagonal, which therefore never decreases. A
    member's own age does not matter. If all peers are fresh (ages 0), the matrix is unchanged, bit for bit.
    """
    _check_square(mixing)
    discount = age_discount(ages, exponent=exponent)
    if discount.shape != (len(mixing),):
        raise InvalidInput("ages", f"shape {discount.shape}", f"({len(mixing)},)")
    peers = _without_diagonal(mixing)
    aged = peers * discount
    np.fill_diagonal(aged, mixing.diagonal() + (peers - aged).sum(axis=1))
    return np.asarray(aged, dtype=np.float64)


def restrict(
    mixing: FloatArray,
    *,
    usable: BoolArray,
    discount: FloatArray | None = None,
    own: BoolArray,
    self_weight: float | None,
    places: Sequence[int] | None = None,
) -> FloatArray:
    """Return W for a round that closes without all members. mixing: (n, n). Returns (n, n), 0 for unusable members.

    places: the members whose rows these are, if the matrix has only some rows, (r, n).

    usable: (n,) an update of the member exists, of this round or older. own: (n,) it is of this round; implies usable.
    discount: (n,) in [0, 1] the value of the update to others (0 makes it unusable); None: all fresh.

    Row i with its own update: with self_weight (FedAP) that weight on the diagonal and the usable others rescaled
    to 1 - self_weight; without (FedAvg) everything usable rescaled to 1, the discount applying only to others.
    If the others have no weight in this row, the member keeps its own model: [.. 1 ..].
    Row i without its own update: the usable others rescaled to 1; if they have no weight in this row (for example if
    self_weight was 1), in proportion to their discounts. A member's old update is never used for itself.
    If all are fresh, the matrix is unchanged, bit for bit. InvalidInput for a member without any usable update.
    """
    if places is None:
        _check_square(mixing)
    check_mixing(mixing)
    worth = _worth(mixing.shape[1], usable=usable, own=own, discount=discount)
    if self_weight is not None:
        _check_self_weight(self_weight)
    if own.all() and (worth == 1.0).all():
        return mixing.copy()
    mine = np.arange(len(mixing)), np.arange(len(mixing)) if places is None else np.asarray(places)
    own = own[mine[1]]
    others = _usable_others(mixing, worth, own, mine)
    weight_of_others = others.sum(axis=1)
    if self_weight is None:
        kept = np.where(own, mixing[mine], 0.0)
        kept = _shares(kept, kept + weight_of_others)
    else:
        kept = np.where(own, self_weight, 0.0)
    kept = np.where(weight_of_others > 0, kept, 1.0)
    restricted = _shares(others, weight_of_others[:, None]) * (1.0 - kept)[:, None]
    restricted[mine] = kept
    return np.asarray(restricted, dtype=np.float64)


def check_mixing(mixing: FloatArray) -> None:
    """Refuse a matrix (r, m) that is not a table of weights: finite, >= 0, every row sums to 1."""
    if mixing.ndim != 2 or mixing.size == 0:
        raise InvalidInput("mixing", f"shape {mixing.shape}", "(receivers, givers), none of them 0")
    if not np.isfinite(mixing).all():
        raise InvalidInput("mixing", "NaN or Inf", "finite weights")
    if mixing.min() < 0:
        raise InvalidInput("mixing", float(mixing.min()), "weights >= 0")
    sums = mixing.sum(axis=1)
    worst = int(np.abs(sums - 1.0).argmax())
    if abs(sums[worst] - 1.0) > ROW_SUM_TOLERANCE:
        raise InvalidInput(f"mixing, row {worst}", float(sums[worst]), "a row that sums to 1")


def _check_square(mixing: FloatArray) -> None:
    check_mixing(mixing)
    if mixing.shape[0] != mixing.shape[1]:
        raise InvalidInput("mixing", f"shape {mixing.shape}", "as many receivers as givers")


def _check_distances(distances: FloatArray) -> None:
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1] or distances.size == 0:
        raise InvalidInput("distances", f"shape {distances.shape}", "(clients, clients), at least one")
    if not np.isfinite(distances).all() or distances.min() < 0:
        raise InvalidInput("distances", distances, "finite numbers >= 0")
    if distances.diagonal().any():
        raise InvalidInput("distances", distances.diagonal(), "0 on the diagonal")
    if not np.allclose(distances, distances.T, rtol=1e-9, atol=0.0):
        raise InvalidInput("distances", "an asymmetric matrix", "the same distance in both directions")


def _check_self_weight(self_weight: float) -> None:
    if not 0.0 <= self_weight <= 1.0:
        raise InvalidInput("self_weight", self_weight, "a number from 0 to 1")


def _shares(parts: FloatArray, whole: FloatArray) -> FloatArray:
    """Return parts / whole, and 0 if whole is 0. Divides each part (a common factor 1 / whole may overflow)."""
    return np.divide(parts, whole, out=np.zeros_like(parts), where=whole > 0)


def _without_diagonal(matrix: FloatArray) -> FloatArray:
    copy = matrix.astype(np.float64)
    np.fill_diagonal(copy, 0.0)
    return copy


def _worth(n: int, *, usable: BoolArray, own: BoolArray, discount: FloatArray | None) -> FloatArray:
    """Return (n,): the value of each member's update to others, 0 if it has no usable one."""
    worth = np.ones(n) if discount is None else np.asarray(discount, dtype=np.float64)
    for field, array, dtype in (("usable", usable, np.bool_), ("own", own, np.bool_), ("discount", worth, np.float64)):
        if array.shape != (n,) or array.dtype != dtype:
            raise InvalidInput(field, f"{array.dtype} {array.shape}", f"{np.dtype(dtype)} ({n},)")
    if not ((worth >= 0.0) & (worth <= 1.0)).all():
        raise InvalidInput("discount", worth, "numbers from 0 to 1")
    if (own & ~usable).any():
        raise InvalidInput("own", own, "only members whose update is usable")
    return np.where(usable, worth, 0.0)


def _usable_others(
    mixing: FloatArray, worth: FloatArray, own: BoolArray, mine: tuple[IndexArray, IndexArray]
) -> FloatArray:
    """Return (r, n), not normalised: what each member takes from others; if it has no own update and no weights for
    them, in proportion to their discounts.

    own: (r,). mine: indices of the rows' own entries."""
    others = mixing.astype(np.float64)
    others[mine] = 0.0
    others *= worth
    for row in np.flatnonzero(~own & ~others.any(axis=1)):
        others[row] = worth
        others[row, mine[1][row]] = 0.0
        if not others[row].any():
            raise InvalidInput("usable", "nobody", "an update of its own or of another member for every member")
    return others
