"""Measure how similar members are on an absolute scale: the distance between two, relative to the spread within them.

W is relative: a member far from all others still takes as much from them as the rest do. A similarity is absolute and
does not depend on the number of members or samples: 1 means equal statistics, 1/2 a distance equal to the spread of the
measured layers' inputs in the members' own data. It needs only the statistics that W is computed from, so whoever
computes W can isolate a member that fits nobody. Statistics show differences in inputs, not in labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedap_core.arrays import BoolArray, FloatArray
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.mixing import check_mixing

MIN_SIMILARITY = 0.7
"""Below this a member fits nobody. In real data sets the nearest member is at 0.79 or more; with another sensor order
or scale, at 0.66 or less (docs/choice.md)."""


def unlike_sentence(similarity: float | None, own_share: float) -> str:
    """Return the sentence for a participant that fits nobody; empty if it fits somebody or the similarity is unknown.
    own_share: how much of its federated model is its own."""
    if similarity is None or similarity >= MIN_SIMILARITY:
        return ""
    taken = "nothing" if own_share >= 1.0 else f"{1.0 - own_share:.0%}"
    return (
        f"Your data differ from those of all other members: similarity {similarity:.2f} to the most similar one, where "
        f"{MIN_SIMILARITY:g} or more is usual. The federated model takes {taken} from others."
    )


def similarities(distances: FloatArray, stats: Sequence[BnStats]) -> FloatArray:
    """Return 1 / (1 + d_ij / s_ij). distances: (n, n) of these statistics, from `distances.total_distance`.

    s_ij is the mean of both members' spreads, the sum over layers of the root of all channels' variances. Returns
    (n, n): symmetric, in [0, 1], ones on the diagonal.
    """
    if distances.shape != (len(stats), len(stats)):
        raise InvalidInput("distances", f"shape {distances.shape}", f"({len(stats)}, {len(stats)})")
    return _similarity_rows(distances, range(len(stats)), spreads(stats))


def spreads(stats: Sequence[BnStats]) -> FloatArray:
    """Return (n,): every member's own spread."""
    return np.array([sum(float(np.sqrt(layer.variance.sum())) for layer in one.layers) for one in stats])


def row_similarity(distances: FloatArray, places: Sequence[int], within: FloatArray) -> FloatArray:
    """Return `nearest_similarity` of some members from their rows. distances: (r, n), n > 1. within: all `spreads`."""
    found = _similarity_rows(distances, places, within)
    found[np.arange(len(found)), np.asarray(places)] = -np.inf
    return np.asarray(found.max(axis=1))


def _similarity_rows(distances: FloatArray, places: Sequence[int], within: FloatArray) -> FloatArray:
    spread = 0.5 * (within[np.asarray(places)][:, None] + within[None, :])
    whole = spread + distances
    return np.asarray(np.divide(spread, whole, out=np.ones_like(whole), where=whole > 0.0))


def nearest_similarity(similarity: FloatArray) -> FloatArray:
    """Return (n,): each member's similarity to the most similar one; 1 for a lone member. similarity: (n, n)."""
    if len(similarity) == 1:
        return np.ones(1)
    others = similarity.astype(np.float64)
    np.fill_diagonal(others, -np.inf)
    return np.asarray(others.max(axis=1))


def isolate(weights: FloatArray, strangers: BoolArray) -> FloatArray:
    """Return W (n, n) with members that fit nobody isolated: they receive and give nothing.

    A stranger keeps its own model; in other rows its weight goes to the other givers in proportion, so that a row keeps
    its own weight and sums to 1. A member without givers keeps its own model. Without strangers, W is unchanged.
    """
    if strangers.shape != (len(weights),):
        raise InvalidInput("strangers", f"shape {strangers.shape}", f"({len(weights)},)")
    if not strangers.any():
        return weights
    own = weights.diagonal()
    peers = np.where(strangers[None, :] | strangers[:, None], 0.0, weights)
    np.fill_diagonal(peers, 0.0)
    given = peers.sum(axis=1)
    kept = np.where(given > 0.0, own, 1.0)
    found = np.divide(peers, given[:, None], out=np.zeros_like(peers), where=given[:, None] > 0.0)
    found *= (1.0 - kept)[:, None]
    np.fill_diagonal(found, kept)
    check_mixing(found)
    return np.asarray(found, dtype=np.float64)


def strangers(members: Sequence[str], similarity: Sequence[float], min_similarity: float) -> list[tuple[str, float]]:
    """Return (name, similarity) of members that fit nobody, even if W mixes them all the same (min_similarity 0)."""
    least = min_similarity or MIN_SIMILARITY
    return [(name, one) for name, one in zip(members, similarity, strict=False) if one < least]
