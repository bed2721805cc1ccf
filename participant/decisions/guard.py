"""The guard between the coordinator's messages and the machine: refuses what was not agreed on.

For `machine` alone, and pure like it. Keeps the terms of the present run and counts what had to be refused: one odd
order is refused and told, and the participant goes on; a coordinator that keeps asking for more is left.
"""

from __future__ import annotations

from fedap_core.errors import InvalidInput
from participant.decisions.actions import Action, Emit, Log, Order
from participant.decisions.consent import Consent, Refusal, Terms
from protocol.errors import ProtocolError
from protocol.limits import TEXT_CHARS
from protocol.messages import Error, Step, Welcome

MOST_REFUSALS = 8
"""Refused orders and deliveries after which a participant leaves: a poisoned round may pass, a habit does not."""


class OrderGuard:
    """consent None: nothing is compared with a plan, as in simulations of the protocol alone."""

    def __init__(self, consent: Consent | None) -> None:
        self._consent = consent
        self._terms: Terms | None = None
        self._agreed: Welcome | None = None
        self._refusals = 0

    @property
    def has_had_enough(self) -> bool:
        return self._refusals >= MOST_REFUSALS

    def objection(self, welcome: Welcome) -> str:
        """Why a welcome is not agreed to; empty where it is, and its terms hold from now on."""
        if self._consent is None:
            return ""
        before = self._agreed if self._agreed is not None and self._agreed.run == welcome.run else None
        try:
            terms = self._consent.terms(welcome, before)
        except (InvalidInput, ProtocolError) as error:
            return f"not agreed to: {error}"
        self._terms, self._agreed = terms, welcome
        return ""

    def refusal(self, order: Order) -> Refusal | None:
        """Why the plan has no such order; None where it has."""
        return None if self._terms is None else self._terms.refusal(order)

    def complain(self, refusal: Refusal, about: Step) -> list[Action]:
        """Tell the operator and the coordinator."""
        self._refusals += 1
        facts = {"code": refusal.code, "reason": refusal.reason, "refused": self._refusals}
        said = Error(code=refusal.code, reason=refusal.reason[:TEXT_CHARS], about=about)
        return [Log(name="order.refused", facts=facts, warn=True), Emit(message=said)]
