"""Compute the cost of differential privacy: the noise that a budget requires, and what all releases have spent.

Pure: takes releases, returns numbers; `record.privacy_ledger` stores them. The privacy loss of Gaussian noise comes
from dp-accounting in its exact form: Gaussian releases compose to a Gaussian one, so nothing needs to be discretised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedap_core.errors import InvalidInput


class PrivacyBudget(BaseModel):
    """The privacy loss allowed for one release and for all together. The participant chooses it; nobody else learns
    it. Releases of different kinds protect different units, so each kind has its own budget."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    SECTION: ClassVar[str]
    """The section of the configuration."""

    epsilon: float | None = None
    delta: float = Field(default=1e-5, gt=0.0, lt=0.1, description="Probability that epsilon does not hold.")
    limit_epsilon: float | None = Field(
        default=None,
        gt=0.0,
        description="Maximum total epsilon of all releases of this kind from this state folder.",
    )

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise over the sensitivity."""
        if self.epsilon is None:
            raise InvalidInput(f"{self.SECTION}.epsilon", "none", "a number > 0")
        return noise_multiplier_of(self.epsilon, self.delta)

    def require_within(self, spent: Sequence[float], more: int = 1) -> float:
        """Return the epsilon spent after so many more releases, or raise InvalidInput if that exceeds the limit.

        spent: noise multipliers of the releases of this kind so far."""
        total = spent_epsilon([*spent, *[self.noise_multiplier] * more], self.delta)
        if self.limit_epsilon is not None and total > self.limit_epsilon * (1 + 1e-9):
            before = spent_epsilon(spent, self.delta)
            releases = "one more release" if more == 1 else f"{more} more releases"
            raise InvalidInput(
                f"{self.SECTION}.limit_epsilon", self.limit_epsilon,
                f"at least {total:.3g} for {releases} ({before:.3g} spent at delta {self.delta:g})",
                "Nothing was sent. Raise the limit, or do not join this run.",
            )  # fmt: skip
        return total


class StatisticsPrivacy(PrivacyBudget):
    """Differential privacy of the layer statistics that are sent.

    One release (the statistics of a run, or of a refresh of W) is (epsilon, delta)-private for one unit: everything
    that a patient, recording or sample contributes to it.
    """

    SECTION: ClassVar[str] = "statistics_privacy"

    epsilon: float | None = Field(
        default=None, gt=0.0, le=100.0, description="Privacy loss of one release; none: exact statistics, no noise."
    )
    clip: float | None = Field(
        default=None,
        gt=0.0,
        description="Clipping norm of one unit, in standard deviations of the anchor; default: the root of the"
        " number of channels.",
    )
    unit: Literal["group", "sample"] = Field(
        default="group",
        description="Unit of protection: group (a patient or recording, if the data have them) or sample.",
    )

    def clip_of(self, channels: int) -> float:
        """The clipping norm of one unit. The default depends only on the model: one computed from the data leaks."""
        return float(channels**0.5) if self.clip is None else self.clip


class UpdatePrivacy(PrivacyBudget):
    """Differential privacy of the updates that are sent, one release per round. The unit is the silo: everything that
    the participant's data contributes to an update."""

    SECTION: ClassVar[str] = "update_privacy"

    epsilon: float | None = Field(
        default=None, gt=0.0, le=1e6, description="Privacy loss of one round's update; none: exact updates, no noise."
    )
    clip: float = Field(default=1.0, gt=0.0, description="Clipping norm of an update's step from the delivered model.")


def noise_multiplier_of(epsilon: float, delta: float) -> float:
    """Standard deviation of the noise, over the sensitivity, that makes one release (epsilon, delta)-private."""
    return _least(lambda multiplier: _delta_at(epsilon, multiplier) <= delta, 1e-6, 1e6)


def spent_epsilon(noise_multipliers: Sequence[float], delta: float) -> float:
    """The epsilon of all releases together, at this delta. Gaussian releases compose to one Gaussian release whose
    inverse square multiplier is the sum of theirs: this is exact, even if they are chosen adaptively."""
    if not noise_multipliers:
        return 0.0
    together = sum(multiplier**-2 for multiplier in noise_multipliers) ** -0.5
    return _least(lambda epsilon: _delta_at(epsilon, together) <= delta, 0.0, 1e12)


def _delta_at(epsilon: float, noise_multiplier: float) -> float:
    """The exact delta of one Gaussian release at that epsilon."""
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss  # takes a second to import

    return float(GaussianPrivacyLoss(noise_multiplier).get_delta_for_epsilon(epsilon))


def _least(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Bisect for the smallest number, to a relative 1e-9 and rounded up, from which a monotone condition holds."""
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
