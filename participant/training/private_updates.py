"""Clip updates and add noise, as an outgoing step: query, budget, noise, in this order; refuse unsuitable algorithms.

The clipped difference starts from the delivered values or, if there are none, from the values sent before: the trained
update itself is never sent unclipped. A sent update is saved with its round (`feedback`) and repeated as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedap_core.errors import InvalidInput
from fedap_core.private_updates import privatise
from fedap_core.strategies import Measure, Strategy
from participant.record.privacy_ledger import PrivacyLedger
from participant.training.outgoing import Departing, OutgoingStep, unchanged
from participant.training.privacy_budget import UpdatePrivacy
from participant.training.private_release import charged
from protocol.messages import Welcome
from protocol.tensors import Array

WHAT = "update"
UNIT = "silo"
"""The protected unit: everything that one participant's data contributes."""


def refuse_unclipped(strategy: Strategy) -> None:
    """Refuse an algorithm that sends results of training besides its update."""
    if strategy.round_measure is not Measure.NONE:
        got = f"{strategy.name}, which sends running statistics of training"
        raise InvalidInput(
            UpdatePrivacy.SECTION, got, "an algorithm that sends training results only as updates", "Use fedap."
        )


def steps_of(
    privacy: UpdatePrivacy | None,
    strategy: Strategy,
    welcome: Welcome,
    ledger: PrivacyLedger,
    variances: frozenset[str],
) -> tuple[OutgoingStep, ...]:
    """Return the outgoing steps of a run. InvalidInput if the budget does not cover its remaining rounds."""
    if privacy is None:
        return (unchanged,)
    refuse_unclipped(strategy)
    released = [one.round_no for one in ledger.releases if (one.what, one.run) == (WHAT, welcome.run)]
    done = max(welcome.round_no, max(released, default=-1) + 1)
    privacy.require_within(ledger.spent(WHAT), more=max(welcome.plan.rounds - done, 0))
    return (PrivateUpdates(privacy=privacy, ledger=ledger, run=welcome.run, variances=variances),)


@dataclass(frozen=True, kw_only=True)
class PrivateUpdates:
    """Clips weights and adds noise; statistics and tables pass unchanged. variances: tensors that must not be
    negative."""

    privacy: UpdatePrivacy
    ledger: PrivacyLedger
    run: str
    variances: frozenset[str]

    def __call__(self, departing: Departing, /) -> Mapping[str, Array]:
        if departing.kind != "weights" or not departing.arrays:
            return departing.arrays
        base = departing.delivered
        if base is None:
            got = f"set, but round {departing.round_no + 1} of {self.run} was saved without noise"
            fix = "Join without it until the run ends, or with another --state."
            raise InvalidInput(UpdatePrivacy.SECTION, got, "the same setting throughout a run", fix)
        asked = {
            "run": self.run, "round_no": str(departing.round_no), "clip": repr(self.privacy.clip),
            "base": _digest(base), "data": _digest(departing.arrays),
        }  # fmt: skip
        query = charged(self.privacy, self.ledger, what=WHAT, asked=asked, unit=UNIT, units=1)
        privatise(
            departing.arrays, base, clip=self.privacy.clip, noise_multiplier=self.privacy.noise_multiplier,
            noise=lambda name, size: self.ledger.noise(f"{query} {name}", size), variances=self.variances,
        )  # fmt: skip
        return departing.arrays


def _digest(arrays: Mapping[str, Array]) -> str:
    """Digest of exact values: never sent, and in the ledger only inside the query's digest."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].shape} ".encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()
