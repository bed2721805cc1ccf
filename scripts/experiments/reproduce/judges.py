"""Judges whether a claim of the paper held: pure functions from our numbers to a verdict that states the numbers.

Accuracies are in per cent. A claim in words («slightly», «much») is judged by a bound that the verdict states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from scripts.report.algorithms import spelled

SLIGHT = 3.0
"""Points: our reading of «slightly», at most."""
MUCH = 5.0
"""Points: our reading of «much» and «seriously», at least; values between SLIGHT and MUCH are neither."""
FASTER = 0.25
"""Share of the slowest setting's rounds: our reading of «changes the convergence rate», at least."""
FASTER_STEPS = 2
"""And at least this many evaluation intervals: each of the two rounds is known only to one interval."""
UNEVEN = 0.2
"""Our reading of «very inconsistent»: a fifth of a client's samples would have to change class to match all data."""

Means = Mapping[str, float]
"""Algorithm -> mean accuracy."""


@dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """claim: the paper's, as a sentence; held: whether our numbers confirm it; numbers: ours, as a sentence."""

    claim: str
    held: bool
    numbers: str

    @property
    def word(self) -> str:
        return "held" if self.held else "not held"


def best(means: Means, *, ours: str = "fedap", claim: str, lead: float = 0.0) -> ClaimVerdict:
    """FedAP has the highest mean, more than `lead` points ahead of the next."""
    others = {name: value for name, value in means.items() if name != ours}
    second = max(others, key=lambda name: others[name])
    ahead = means[ours] - others[second]
    numbers = f"{spelled(ours)} {means[ours]:.2f} %, best of the others {spelled(second)} {others[second]:.2f} %"
    return ClaimVerdict(claim=claim, held=ahead > lead, numbers=f"{numbers}: {ahead:+.2f} points.")


def worst(means: Means, *, name: str, claim: str) -> ClaimVerdict:
    """That algorithm has the lowest mean."""
    lowest = min(means, key=lambda other: means[other])
    numbers = f"{spelled(name)} {means[name]:.2f} %; the lowest is {spelled(lowest)} with {means[lowest]:.2f} %."
    return ClaimVerdict(claim=claim, held=lowest == name, numbers=numbers)


def second_best(means: Means, *, name: str, claim: str) -> ClaimVerdict:
    """That algorithm comes second."""
    order = sorted(means, key=lambda other: -means[other])
    ranking = ", ".join(f"{spelled(other)} {means[other]:.2f}" for other in order[:3])
    return ClaimVerdict(claim=claim, held=order[1] == name, numbers=f"The first three: {ranking} %.")


def much_better(*, ours: tuple[str, float], other: tuple[str, float], claim: str, where: str = "") -> ClaimVerdict:
    """The first mean is at least MUCH points above the second."""
    gain, shown = _gain(ours, other)
    numbers = f"{where}{shown} («much» is read as at least {MUCH:g})."
    return ClaimVerdict(claim=claim, held=gain >= MUCH, numbers=numbers)


def slightly_better(*, ours: tuple[str, float], other: tuple[str, float], claim: str, where: str = "") -> ClaimVerdict:
    """The first mean is above the second, by at most SLIGHT points."""
    gain, shown = _gain(ours, other)
    numbers = f"{where}{shown} («slightly» is read as at most {SLIGHT:g})."
    return ClaimVerdict(claim=claim, held=0 < gain <= SLIGHT, numbers=numbers)


def _gain(ours: tuple[str, float], other: tuple[str, float]) -> tuple[float, str]:
    gain = ours[1] - other[1]
    return gain, f"{ours[0]} {ours[1]:.2f} %, {other[0]} {other[1]:.2f} %: {gain:+.2f} points"


def better_for_everyone(ours: Sequence[float], other: Sequence[float], *, claim: str, where: str = "") -> ClaimVerdict:
    """Every client is better off; both lists have the same clients."""
    gains = [mine - theirs for mine, theirs in zip(ours, other, strict=True)]
    better = sum(gain > 0 for gain in gains)
    numbers = (
        f"{where}{better} of {len(gains)} clients are better off, from {min(gains):+.1f} to {max(gains):+.1f} points."
    )
    return ClaimVerdict(claim=claim, held=better == len(gains), numbers=numbers)


def robust_to_uneven_data(
    *, fedavg: tuple[float, float], fedap: tuple[float, float], claim: str, where: str
) -> ClaimVerdict:
    """(mean at alpha 0.1, at 0.05) each: FedAvg falls, and FedAP changes less than FedAvg falls."""
    fall, change = fedavg[0] - fedavg[1], fedap[0] - fedap[1]
    numbers = (
        f"{where}from α = 0.1 to 0.05 FedAvg goes from {fedavg[0]:.2f} to {fedavg[1]:.2f} % ({-fall:+.2f}), "
        f"FedAP from {fedap[0]:.2f} to {fedap[1]:.2f} % ({-change:+.2f}) («not much» is read as "
        "less than FedAvg falls)."
    )
    return ClaimVerdict(claim=claim, held=fall > 0 and abs(change) < fall, numbers=numbers)


def declines_less(
    *, ours: tuple[str, Sequence[float]], other: tuple[str, Sequence[float]], ends: tuple[str, str], claim: str
) -> ClaimVerdict:
    """From the first to the last setting `other` loses at least MUCH points, and `ours` loses less."""
    mine, theirs = ours[1][0] - ours[1][-1], other[1][0] - other[1][-1]
    numbers = (
        f"From {ends[0]} to {ends[1]} {other[0]} goes from {other[1][0]:.2f} to {other[1][-1]:.2f} % ({-theirs:+.2f}), "
        f"{ours[0]} from {ours[1][0]:.2f} to {ours[1][-1]:.2f} % ({-mine:+.2f}) («seriously» is read as at least "
        f"{MUCH:g} points, «slowly» as less than {other[0]})."
    )
    return ClaimVerdict(claim=claim, held=theirs >= MUCH and mine < theirs, numbers=numbers)


def goes_down(values: Sequence[float], positions: Sequence[str], *, name: str, claim: str) -> ClaimVerdict:
    """The last value is below the first."""
    shown = ", ".join(f"{value:.2f} ({at})" for value, at in zip(values, positions, strict=True))
    return ClaimVerdict(claim=claim, held=values[-1] < values[0], numbers=f"{name}: {shown} %.")


def leads(settings: Mapping[str, Means], *, ours: str = "fedap", claim: str, share: float = 1.0) -> ClaimVerdict:
    """FedAP has the highest mean at all settings, or at more than `share` of them if that is below 1."""
    won = [at for at, means in settings.items() if max(means, key=lambda name: means[name]) == ours]
    gaps = {
        at: means[ours] - max(value for name, value in means.items() if name != ours) for at, means in settings.items()
    }
    shown = ", ".join(f"{gap:+.2f} ({at})" for at, gap in gaps.items())
    numbers = f"{spelled(ours)} leads at {len(won)} of {len(settings)} settings; points ahead of the next: {shown}."
    return ClaimVerdict(claim=claim, held=_enough(len(won), len(settings), share), numbers=numbers)


def _enough(won: int, of: int, share: float) -> bool:
    return won == of if share >= 1.0 else won > share * of


def all_above(means: Means, *, ours: Sequence[str], others: Sequence[str], claim: str, where: str = "") -> ClaimVerdict:
    """Each of ours is above each of the others."""
    lowest = min(ours, key=lambda name: means[name])
    highest = max(others, key=lambda name: means[name])
    numbers = (
        f"{where}the lowest of the variants is {spelled(lowest)} with {means[lowest]:.2f} %, "
        f"the highest of the others {spelled(highest)} with {means[highest]:.2f} %."
    )
    return ClaimVerdict(claim=claim, held=means[lowest] > means[highest], numbers=numbers)


def slightly_below(means: Means, *, name: str, others: Sequence[str], claim: str, where: str = "") -> ClaimVerdict:
    """That variant is below the others, by at most SLIGHT points."""
    gap = min(means[other] for other in others) - means[name]
    shown = ", ".join(f"{spelled(other)} {means[other]:.2f}" for other in (*others, name))
    numbers = f"{where}{shown} %: {gap:.2f} points below («slightly» is read as at most {SLIGHT:g})."
    return ClaimVerdict(claim=claim, held=0 < gap <= SLIGHT, numbers=numbers)


def converges_by(converged: float | None, *, name: str, bound: int, every: int, claim: str) -> ClaimVerdict:
    """The curve stays above 95 % of its final value from a round not later than `bound`."""
    if converged is None:
        return ClaimVerdict(claim=claim, held=False, numbers=f"{name} did not converge.")
    grain = "" if every == 1 else f" (evaluated every {every} rounds)"
    numbers = f"{name} stays within 95 % of its final accuracy from round {converged:.0f}{grain}; asked for: {bound}."
    return ClaimVerdict(claim=claim, held=converged <= bound, numbers=numbers)


def sooner_at_a_level(
    rounds: Mapping[str, float | None], *, ours: str, other: str, level: float, claim: str
) -> ClaimVerdict:
    """`ours` reaches the same accuracy level in fewer rounds than `other`."""
    shown = {name: "never" if value is None else f"in round {value:.0f}" for name, value in rounds.items()}
    numbers = f"{level:.1f} % is reached by {spelled(ours)} {shown[ours]}, by {spelled(other)} {shown[other]}."
    mine, theirs = rounds[ours], rounds[other]
    return ClaimVerdict(claim=claim, held=mine is not None and (theirs is None or mine < theirs), numbers=numbers)


def affects_slightly(values: Mapping[str, float], *, claim: str) -> ClaimVerdict:
    """All settings are within SLIGHT points of each other."""
    spread = max(values.values()) - min(values.values())
    shown = ", ".join(f"{value:.2f} ({at})" for at, value in values.items())
    numbers = f"{shown} %: {spread:.2f} points between best and worst («slightly» is read as at most {SLIGHT:g})."
    return ClaimVerdict(claim=claim, held=spread <= SLIGHT, numbers=numbers)


def changes_speed(rounds: Mapping[str, float | None], *, every: int, claim: str) -> ClaimVerdict:
    """Fastest and slowest setting differ by a share of the slowest, and by more than the evaluation interval.

    every: rounds between evaluations. A setting that did not converge (None) is named, not judged.
    """
    shown = ", ".join(f"{'never' if value is None else f'{value:.0f}'} ({at})" for at, value in rounds.items())
    known = [value for value in rounds.values() if value is not None] or [0.0]
    apart, asked = max(known) - min(known), max(FASTER * max(known), float(FASTER_STEPS * every))
    numbers = (
        f"95 % of the final accuracy is reached in round {shown}: {apart:.0f} rounds between fastest and slowest (a "
        f"change is read as at least {asked:.3g}: {100 * FASTER:.0f} % of the slowest, and {FASTER_STEPS} × {every}, "
        "the step between evaluations)."
    )
    return ClaimVerdict(claim=claim, held=apart >= asked, numbers=numbers)


def uneven_clients(counts: Sequence[Sequence[int]], *, claim: str, where: str = "") -> ClaimVerdict:
    """The mean total variation distance between a client's classes and all is large. counts: (clients, classes)."""
    total = [sum(column) for column in zip(*counts, strict=True)]
    whole = [value / sum(total) for value in total]
    distances, missing = [], []
    for client in counts:
        shares = [value / sum(client) for value in client]
        distances.append(0.5 * sum(abs(mine - all_) for mine, all_ in zip(shares, whole, strict=True)))
        missing.append(sum(value == 0 for value in client))
    numbers = (
        f"{where}on average {100 * fmean(distances):.0f} % of a client's samples would have to change class to match "
        f"the whole (asked for: over {100 * UNEVEN:.0f}), and {fmean(missing):.1f} of {len(whole)} classes are missing."
    )
    return ClaimVerdict(claim=claim, held=fmean(distances) > UNEVEN, numbers=numbers)


def correlates(correlations: Mapping[str, Sequence[float]], *, claim: str) -> ClaimVerdict:
    """Every correlation coefficient, over all clients and layers, is positive."""
    shown = "; ".join(
        f"{name}: median r = {median(values):.3f}, lowest {min(values):.3f} of {len(values)}"
        for name, values in correlations.items()
    )
    held = all(value > 0 for values in correlations.values() for value in values)
    return ClaimVerdict(claim=claim, held=held, numbers=f"{shown} (one r for each client and layer).")
