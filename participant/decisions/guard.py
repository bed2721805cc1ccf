"""Guard the machine against the coordinator's messages: refuse whatever was not agreed to.

Used only by `machine`, and pure like it. Keeps the terms of the current run and counts refusals: a single bad order is
refused and reported, and the participant continues; it leaves a coordinator that repeats such orders.
"""

from __future__ import annotations

from fedap_core.errors import InvalidInput
from participant.decisions.actions import Action, Emit, Log, Order
from participant.decisions.consent import Consent, Refusal, Terms
from protocol.errors import ProtocolError
from protocol.limits import TEXT_CHARS
from protocol.messages import Error, Step, Welcome

MOST_REFUSALS = 8
"""Refused orders and deliveries after which a participant leaves: one poisoned round is tolerated, many are not."""


class OrderGuard:
    """consent: None disables the comparison with a plan, as in simulations of the protocol alone."""

    def __init__(self, consent: Consent | None) -> None:
        self._consent = consent
        self._terms: Terms | None = None
        self._agreed: Welcome | None = None
        self._refusals = 0

    @property
    def has_reached_limit(self) -> bool:
        return self._refusals >= MOST_REFUSALS

    def objection(self, welcome: Welcome) -> str:
        """Why a welcome is not agreed to. Empty if it is agreed to; its terms then apply from now on."""
        if self._consent is None:
            return ""
        before = self._agreed if self._agreed is not None and self._agreed.run == welcome.run else None
        try:
            terms = self._consent.terms(welcome, before)
        except (InvalidInput, ProtocolError) as error:
            return f"not allowed: {error}"
        self._terms, self._agreed = terms, welcome
        return ""

    def refusal(self, order: Order) -> Refusal | None:
        """Why the plan does not permit this order; None if it does."""
        return None if self._terms is None else self._terms.refusal(order)

    def report_refusal(self, refusal: Refusal, about: Step) -> list[Action]:
        """Count a refusal, log it, and report it to the coordinator."""
        self._refusals += 1
        facts = {"code": refusal.code, "reason": refusal.reason, "refused": self._refusals}
        said = Error(code=refusal.code, reason=refusal.reason[:TEXT_CHARS], about=about)
        return [Log(name="order.refused", facts=facts, warn=True), Emit(message=said)]
