"""What a participant does after a `reject`: end, or try again. Pure; used only by `machine`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedap_core.exit_codes import DONE, WRONG_INPUT
from protocol.messages import Reject

RETRIED_REFUSALS = frozenset({"name-taken"})
"""Refusals that may end by themselves for one who comes back: its old connection may not be known to be dead yet."""

COPIES = 3
"""Refusals because of a copied state folder, after each of which a fresh line is tried, that are believed: a network
may have repeated what an earlier line said."""

HEARD_AGAIN_S = 1.0
"""By how much the end of waiting for a name in use must move on before its holder counts as alive: far beyond what a
network's delays can pretend."""


@dataclass(frozen=True, kw_only=True)
class RejectionVerdict:
    """code: with which the participant ends; None: it comes back, after a pause of at most `at_most_s`."""

    reason: str
    code: int | None = None
    at_most_s: float = math.inf


class Rejections:
    """Remembers since when a name is waited for, and how often a copy of our state was in the way."""

    def __init__(self) -> None:
        self._free_at: float | None = None
        self._copies = 0

    def welcomed(self) -> None:
        """Nothing is waited for any more."""
        self._free_at = None

    def judge(self, reject: Reject, now: float, *, said_goodbye: bool, comes_back: bool) -> RejectionVerdict:
        """comes_back: a run of an earlier connection is held."""
        if reject.code == "run-over" and said_goodbye:
            return RejectionVerdict(reason="the run is over", code=DONE)
        if reject.code == "name-in-use" and reject.wait_s is not None:
            return self._judge_name_in_use(reject, reject.wait_s, now)
        if reject.code == "name-in-use":
            self._copies += 1
            if self._copies < COPIES:
                return RejectionVerdict(reason=f"refused, {reject.code}: {reject.reason}")
        if reject.code in RETRIED_REFUSALS and comes_back:
            return RejectionVerdict(reason=f"refused: {reject.reason}")
        both = f" (the coordinator has {reject.ours}, here is {reject.yours})" if reject.ours or reject.yours else ""
        return RejectionVerdict(reason=f"refused, {reject.code}: {reject.reason}{both}", code=WRONG_INPUT)

    def _judge_name_in_use(self, reject: Reject, wait_s: float, now: float) -> RejectionVerdict:
        """Wait for as long as the other process may be dead, which is what this one finds after losing its state; a
        sign of life from the other ends it."""
        reason = f"refused, {reject.code}: {reject.reason}"
        first, self._free_at = self._free_at, self._free_at if self._free_at is not None else now + wait_s
        if first is not None and now + wait_s > first + HEARD_AGAIN_S:
            return RejectionVerdict(reason=reason, code=WRONG_INPUT)
        return RejectionVerdict(reason=reason, at_most_s=wait_s + 0.1)
