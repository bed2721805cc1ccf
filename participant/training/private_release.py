"""Release layer statistics under differential privacy: query, budget, noise, in this order.

A query is charged once: after a crash its answer is the same and costs nothing. The ledger is durable before the noisy
statistics exist, so a crash can waste budget but never hide a release.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from fedap_core.arrays import FloatArray, IndexArray
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.nn.state import State
from fedap_core.private_statistics import UnitMoments, private_statistics
from fedap_core.strategies import Measure, Strategy
from participant.data.base import Dataset
from participant.record.privacy_ledger import PrivacyLedger, PrivateRelease
from participant.record.private_state import PrivateState
from participant.training.delivered import state_digest
from participant.training.local import LocalClient
from participant.training.privacy_budget import PrivacyBudget, StatisticsPrivacy
from protocol.messages import Anchor


def refuse_unprotected(strategy: Strategy) -> None:
    """Refuse an algorithm whose statistics cannot be protected by this noise."""
    name = strategy.name
    if strategy.round_measure is not Measure.NONE:
        got = f"{name}, which sends running statistics of training"
        raise InvalidInput("statistics_privacy", got, "fedap or d-fedap, which measure the data once", "Use fedap.")
    if strategy.measures_covariance(strategy.first_measure):
        raise InvalidInput("statistics_privacy", f"{name} with full covariances", "the diagonal distance")


def unit_of(data: Dataset, wanted: str, positions: IndexArray) -> tuple[str, IndexArray]:
    """Return the name of the protected unit, and (n,) the unit of every sample at these positions."""
    groups = data.group[positions]
    alone = len(np.unique(groups)) == len(groups)
    if wanted == "sample" or alone:
        return "sample", np.arange(len(positions), dtype=np.int64)
    return ("recording" if data.span is not None else "patient"), groups


class OutgoingStatistics:
    """The outgoing statistics of one run: exact, or with the noise that the participant has chosen."""

    def __init__(
        self,
        privacy: StatisticsPrivacy | None,
        strategy: Strategy,
        *,
        data: Dataset,
        train: IndexArray,
        state: PrivateState,
    ) -> None:
        if privacy is not None:
            refuse_unprotected(strategy)
        self._privacy = privacy
        self._data = data
        self._train = train
        self._state = state

    def measure(self, client: LocalClient, order: Anchor, anchor: State) -> BnStats:
        """Return the statistics to send for this order."""
        what = Measure(order.measure)
        if self._privacy is None:
            return client.measure(anchor, what)
        unit, units = unit_of(self._data, self._privacy.unit, self._train)
        question = {"run": order.run, "round_no": str(order.round_no), "measure": what, "anchor": state_digest(anchor)}
        measured = client.measure_units(anchor, what, units)
        return release(measured, self._privacy, PrivacyLedger.of(self._state), question=question, unit=unit)


def release(
    measured: UnitMoments, privacy: StatisticsPrivacy, ledger: PrivacyLedger, *, question: Mapping[str, str], unit: str
) -> BnStats:
    """Return noisy statistics, charged to the budget; InvalidInput if it is exhausted. question: everything besides the
    data that determined `measured`."""
    clip = privacy.clip_of(sum(layer.channels for layer in measured.layers))
    units, width = measured.vectors.shape
    asked = {**question, "clip": repr(clip), "data": _digest(measured)}
    query = charged(privacy, ledger, what="statistics", asked=asked, unit=unit, units=units)
    multiplier = privacy.noise_multiplier
    return private_statistics(measured, clip=clip, noise_multiplier=multiplier, noise=ledger.noise(query, width))


def charged(
    privacy: PrivacyBudget, ledger: PrivacyLedger, *, what: str, asked: Mapping[str, str], unit: str, units: int
) -> str:
    """Charge a query and return its digest, which keys its noise. It is durable in the ledger on return; a repeated one
    costs nothing. asked: everything that determines the answer, with `run` and `round_no`."""
    multiplier = privacy.noise_multiplier
    named = sorted({**asked, "multiplier": repr(multiplier), "unit": unit}.items())
    query = hashlib.sha256("\x1f".join(f"{name}={value}" for name, value in named).encode()).hexdigest()
    if ledger.find(query) is None:
        privacy.require_within(ledger.spent(what))
        ledger.add(
            PrivateRelease(
                what=what, run=asked["run"], round_no=int(asked["round_no"]), query=query,
                noise_multiplier=multiplier, unit=unit, units=units, at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        )  # fmt: skip
    return query


def _digest(measured: UnitMoments) -> str:
    """Digest of the exact values: never sent, and in the ledger only inside the query's digest. Different values get
    different noise, whatever made them differ."""
    exact: FloatArray = np.ascontiguousarray(measured.vectors)
    return hashlib.sha256(exact.tobytes()).hexdigest()
