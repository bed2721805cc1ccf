"""Measures layer statistics for release under differential privacy: question, budget, noise, in this order.

A question is asked once: its answer after a crash is the same and costs nothing. The ledger is durable before the
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
from participant.training.local import LocalClient
from participant.training.privacy_budget import StatisticsPrivacy, require_within
from protocol.messages import Anchor


def refuse_unprotected(strategy: Strategy) -> None:
    """Refuse an algorithm whose statistics noise cannot protect here."""
    name = strategy.name
    if strategy.round_measure is not Measure.NONE:
        got = f"{name}, which sends running statistics of training"
        raise InvalidInput("statistics_privacy", got, "fedap or d-fedap, which measure the data once", "Use fedap.")
    if strategy.measures_covariance(strategy.first_measure):
        raise InvalidInput("statistics_privacy", f"{name} with full covariances", "the diagonal distance")


def unit_of(data: Dataset, wanted: str, positions: IndexArray) -> tuple[str, IndexArray]:
    """What a unit is, in a word, and (n,) the unit of every sample at these positions."""
    groups = data.group[positions]
    alone = len(np.unique(groups)) == len(groups)
    if wanted == "sample" or alone:
        return "sample", np.arange(len(positions), dtype=np.int64)
    return ("recording" if data.span is not None else "patient"), groups


class OutgoingStatistics:
    """The statistics of one run as they may leave: exact, or with the noise that the participant has chosen."""

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
        """What is sent for this order."""
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
    """Statistics that may leave, charged to the budget; InvalidInput where that is spent. question: all that determined
    `measured` beside the data."""
    multiplier = privacy.noise_multiplier
    clip = privacy.clip_of(sum(layer.channels for layer in measured.layers))
    units, width = measured.vectors.shape
    asked = {**question, "clip": repr(clip), "multiplier": repr(multiplier), "unit": unit, "data": _digest(measured)}
    query = hashlib.sha256("\x1f".join(f"{name}={value}" for name, value in sorted(asked.items())).encode()).hexdigest()
    if ledger.find(query) is None:
        spent = [one.noise_multiplier for one in ledger.releases]
        require_within(privacy.limit_epsilon, [*spent, multiplier], privacy.delta)
        ledger.add(
            PrivateRelease(
                what="statistics", run=question["run"], round_no=int(question["round_no"]), query=query,
                noise_multiplier=multiplier, unit=unit, units=units, at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        )  # fmt: skip
    return private_statistics(measured, clip=clip, noise_multiplier=multiplier, noise=ledger.noise(query, width))


def state_digest(state: State) -> str:
    """By which a question names the model that it was asked under."""
    found = hashlib.sha256()
    for name in sorted(state):
        array = state[name].detach().cpu().contiguous().numpy()
        found.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return found.hexdigest()


def _digest(measured: UnitMoments) -> str:
    """Of the exact values: never sent, and in the ledger only inside the query's digest. Other values get other noise,
    whatever made them differ."""
    exact: FloatArray = np.ascontiguousarray(measured.vectors)
    return hashlib.sha256(exact.tobytes()).hexdigest()
