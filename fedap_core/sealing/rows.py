"""Rows of W as integers, computed alike on both sides: what a member may request, and what it gets if some are absent.

A row maps names to integers that sum to 2^20. A member with the keys can subtract what it knows from a sum, so a row
must not be a single other member's update: no peer gives more than a cap (a run that sets it to the others' whole share
has none), the algorithm fixes the member's own share, and in a run of three or more members a mix of fewer than two
others is not made. Pure arithmetic on Python numbers, in the order of names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fedap_core.errors import InvalidInput
from fedap_core.sealing.fixed_point import WHOLE
from fedap_core.strategies import Phase, Strategy

SHARE_OF_FEW = 1.25
"""Among few members each may give this multiple of its equal share: a lower cap would leave weight to nobody."""

SLACK = 2
"""Units of 2^-20 by which two computations of one row may differ: machines round powers differently."""

Row = Mapping[str, int]
"""Name of the giver -> weight."""


@dataclass(frozen=True, kw_only=True)
class RowRule:
    """The rules for rows of one phase. own_share: the share of the member's own update in a personal row; None if all
    rows are the same. max_peer_weight: the most that one giver gives, in federations large enough for it. leaves_alone:
    whether the strategy may leave a member that fits nobody with its own model."""

    own_share: float | None
    max_peer_weight: float
    leaves_alone: bool = False

    @classmethod
    def of(cls, strategy: Strategy, phase: Phase, *, max_peer_weight: float) -> RowRule:
        """Return the strategy's rule in that phase."""
        own = strategy.kept_self_weight if strategy.is_personal(phase) else None
        alone = bool(strategy.least_similarity)
        return cls(own_share=own, max_peer_weight=max_peer_weight, leaves_alone=alone)

    def __post_init__(self) -> None:
        if not 0.0 < self.max_peer_weight <= 1.0:
            raise InvalidInput("max_peer_weight", self.max_peer_weight, "a number above 0, up to 1")

    def cap(self, givers: int) -> float:
        """The most that one of so many givers may give. givers: the peers of a personal row, all of a common row."""
        shared = 1.0 if self.own_share is None else 1.0 - self.own_share
        return max(self.max_peer_weight, SHARE_OF_FEW * shared / max(givers, 1))


def rounded(row: Mapping[str, float]) -> dict[str, int]:
    """Round weights >= 0, not all 0, to integers that sum to 2^20: by largest remainder, ties by name."""
    total = math.fsum(row.values())
    if not 0.0 < total < math.inf or min(row.values()) < 0.0:
        raise InvalidInput("row", dict(row), "numbers >= 0, not all 0")
    exact = {name: row[name] / total * WHOLE for name in sorted(row)}
    whole = {name: math.floor(value) for name, value in exact.items()}
    missing = WHOLE - sum(whole.values())
    by_rest = sorted(exact, key=lambda name: (whole[name] - exact[name], name))
    for name in by_rest[:missing]:
        whole[name] += 1
    return whole


def request(row: Mapping[str, float], receiver: str, rule: RowRule) -> dict[str, int]:
    """Return the row that a member requests, or that is made for it. row: the strategy's weights over all members."""
    if rule.own_share is None:
        return rounded(_filled(dict(row), 1.0, rule.cap(len(row))))
    peers = {name: weight for name, weight in row.items() if name != receiver}
    if not peers or (rule.leaves_alone and not any(peers.values())):
        return {**dict.fromkeys(sorted(peers), 0), receiver: WHOLE}
    filled = _filled(peers, 1.0 - rule.own_share, rule.cap(len(peers)))
    return rounded({**filled, receiver: rule.own_share})


def alike(names: tuple[str, ...], receiver: str, rule: RowRule) -> dict[str, int]:
    """Return the row of a member that has not requested one yet: all others give the same."""
    return request(dict.fromkeys((*names, receiver), 1.0), receiver, rule)


def objection(row: Row, receiver: str, names: frozenset[str], rule: RowRule) -> str:
    """Why a requested row is refused; empty if it is not. names: the members whose statistics the member received."""
    if set(row) != names | {receiver}:
        odd = sorted(set(row) ^ (names | {receiver}))
        return f"a row over {len(row)} members, {odd[0]} for one, expected the {len(names)} whose statistics were sent"
    if sum(row.values()) != WHOLE or min(row.values()) < 0:
        return f"a row that sums to {sum(row.values())}, expected whole numbers from 0 that sum to {WHOLE}"
    own = row[receiver]
    alone = own == WHOLE and (len(row) == 1 or rule.leaves_alone)
    if rule.own_share is not None and not alone and abs(own - rule.own_share * WHOLE) > SLACK:
        return f"a share of {own / WHOLE:.4g} of its own, expected {rule.own_share:g}"
    givers = len(row) if rule.own_share is None else len(row) - 1
    most = rule.cap(givers) * WHOLE + SLACK
    name, largest = max(((one, row[one]) for one in sorted(row) if one != receiver), key=_weight, default=("", 0))
    if largest > most:
        return f"{largest / WHOLE:.4g} of {name}, expected at most {rule.cap(givers):.4g} of one peer"
    return ""


def granted(
    requested: Row, receiver: str, worth: Mapping[str, float], rule: RowRule, *, members: int, to_self: bool = False
) -> dict[str, int]:
    """Return the weights of a mix, given the usable updates. Empty: no mix can be made for this member.

    worth: for each member with a usable update its discount by age, in (0, 1]; the receiver's own, if present, counts
    fully. members: number in the run. to_self: what others lose by age goes to the receiver (continuous mode).
    """
    present = receiver in worth
    peers = {name: requested.get(name, 0) * worth[name] for name in sorted(worth) if name != receiver}
    if not any(peers.values()) and not present:  # it has no own update and no weights for anybody here
        peers = {name: worth[name] for name in peers}
    peers = {name: weight for name, weight in peers.items() if weight > 0.0}
    if len(peers) < min(2, members - 1):
        return {receiver: WHOLE} if present else {}
    if not present:
        return rounded(_filled(peers, 1.0, max(rule.cap(len(peers)), SHARE_OF_FEW / len(peers))))
    if not peers:
        return {receiver: WHOLE}
    if to_self:
        return rounded({**peers, receiver: WHOLE - math.fsum(peers.values())})
    if rule.own_share is None:
        everyone = {**peers, receiver: float(requested.get(receiver, 0))}
        return rounded(_filled(everyone, 1.0, rule.cap(len(everyone))))
    return rounded({**_filled(peers, 1.0 - rule.own_share, rule.cap(len(peers))), receiver: rule.own_share})


def agree(one: Row, other: Row) -> bool:
    """Whether two computations of a row agree up to rounding."""
    return all(abs(one.get(name, 0) - other.get(name, 0)) <= SLACK for name in {*one, *other})


def _filled(weights: Mapping[str, float], total: float, cap: float) -> dict[str, float]:
    """Scale weights to a sum of `total` with none above `cap`; the excess goes to the others in proportion, or equally
    if none of them has any weight. Requires cap * len(weights) >= total."""
    capped: set[str] = set()
    while True:
        free = {name: weight for name, weight in weights.items() if name not in capped}
        held = math.fsum(free.values())
        room = total - cap * len(capped)
        filled = {
            name: room * (weight / held if held > 0.0 else 1.0 / len(free)) for name, weight in sorted(free.items())
        }
        over = {name for name, weight in filled.items() if weight > cap * (1.0 + 1e-12)}
        if not over:
            return {**filled, **dict.fromkeys(capped, cap)}
        capped |= over


def _weight(pair: tuple[str, int]) -> int:
    return pair[1]
