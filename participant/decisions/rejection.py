"""Decide what a participant does after a `reject`: end, or try again. Pure; used only by `machine`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedap_core.exit_codes import DONE, WRONG_INPUT
from protocol.messages import Reject

RETRIED_REFUSALS = frozenset({"name-taken"})
"""Refusals that may resolve themselves for a returning member: its old connection may still count as alive."""

COPIES = 3
"""Refusals because of a copied state folder after which the participant ends; after earlier ones it tries a new line,
because the network may have repeated a message of an earlier line."""

HEARD_AGAIN_S = 1.0
"""How far the time at which a used name becomes free must move before its holder counts as alive: far more than network
delays can cause."""


@dataclass(frozen=True, kw_only=True)
class RejectionVerdict:
    """code: the exit code with which the participant ends; None: it reconnects after at most `at_most_s`."""

    reason: str
    code: int | None = None
    at_most_s: float = math.inf


class Rejections:
    """Remembers when a used name should become free, and how often a copy of our state caused a refusal."""

    def __init__(self) -> None:
        self._free_at: float | None = None
        self._copies = 0

    def welcomed(self) -> None:
        """Stop waiting for a name."""
        self._free_at = None

    def judge(self, reject: Reject, now: float, *, said_goodbye: bool, comes_back: bool) -> RejectionVerdict:
        """Decide between ending and reconnecting. comes_back: a run of an earlier connection is stored here."""
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
        both = f" (coordinator: {reject.ours}, this participant: {reject.yours})" if reject.ours or reject.yours else ""
        return RejectionVerdict(reason=f"refused, {reject.code}: {reject.reason}{both}", code=WRONG_INPUT)

    def _judge_name_in_use(self, reject: Reject, wait_s: float, now: float) -> RejectionVerdict:
        """Wait while the other process with this name may be dead, as after a loss of our own state folder; end if it
        shows a sign of life."""
        reason = f"refused, {reject.code}: {reject.reason}"
        first, self._free_at = self._free_at, self._free_at if self._free_at is not None else now + wait_s
        if first is not None and now + wait_s > first + HEARD_AGAIN_S:
            return RejectionVerdict(reason=reason, code=WRONG_INPUT)
        return RejectionVerdict(reason=reason, at_most_s=wait_s + 0.1)
