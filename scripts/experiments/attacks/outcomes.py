"""Decides what outcomes of attacks come to: means over seeds, and what each attack costs the honest members.

Pure: outcomes in, tables out. An attack has two controls. The hostile member could also stay away (ALONE) or take part
honestly (HONEST); differences to both are paired over (honest member, seed).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from scripts.report.tables import plain_table
from scripts.run.chance import PairedDifference, paired

ALONE = "alone"
"""The honest members by themselves, without a fifth."""
HONEST = "none"
"""The attack that is none: the fifth member is honest."""


@dataclass(frozen=True, kw_only=True)
class AttackOutcome:
    """accuracies: of each honest member, in percent. refused: how often, by code."""

    accuracies: tuple[float, ...]
    refused: dict[str, int]
    excluded: bool

    @property
    def accuracy(self) -> float:
        return float(np.mean(self.accuracies))


@dataclass(frozen=True, kw_only=True)
class AttackRun:
    """One run: who attacks whom, under which defence. ALONE is always run without a defence, for it needs none."""

    algorithm: str
    attack: str
    defence: str
    seed: int


Outcomes = Mapping[AttackRun, AttackOutcome]


@dataclass(frozen=True, kw_only=True)
class AttackCost:
    """One attack on one algorithm under one defence, over all seeds; accuracies and differences in percent.

    to_alone, to_honest: accuracy minus that of the control, over the seeds that both have; None if there are none.
    """

    accuracy: float
    seeds: int
    to_alone: PairedDifference | None
    to_honest: PairedDifference | None
    refused: int
    excluded: int


def cost_of(found: Outcomes, *, algorithm: str, attack: str, defence: str) -> AttackCost | None:
    """Return what one attack costs over the seeds it was run with; None if it was not run."""
    ours = _by_seed(found, algorithm, attack, defence)
    if not ours:
        return None
    return AttackCost(
        accuracy=float(np.mean([one.accuracy for one in ours.values()])),
        seeds=len(ours),
        to_alone=_to(ours, _by_seed(found, algorithm, ALONE, HONEST)),
        to_honest=_to(ours, _by_seed(found, algorithm, HONEST, defence)),
        refused=sum(sum(one.refused.values()) for one in ours.values()),
        excluded=sum(one.excluded for one in ours.values()),
    )


def _by_seed(found: Outcomes, algorithm: str, attack: str, defence: str) -> dict[int, AttackOutcome]:
    wanted = (algorithm, attack, defence)
    return {run.seed: one for run, one in found.items() if (run.algorithm, run.attack, run.defence) == wanted}


def _to(ours: Mapping[int, AttackOutcome], control: Mapping[int, AttackOutcome]) -> PairedDifference | None:
    both = [np.subtract(one.accuracies, control[seed].accuracies) for seed, one in ours.items() if seed in control]
    return paired(np.concatenate(both)) if both else None


def table(found: Outcomes) -> str:
    """Return a table of attacks by algorithm and defence: mean accuracy of the honest members over the seeds, its
    difference to both controls, refusals."""
    runs = [run for run in found if run.attack != ALONE]
    columns = _unique((run.algorithm, run.defence) for run in runs)
    rows = [[ALONE, *(_cell(found, algorithm, ALONE, HONEST) for algorithm, _ in columns)]]
    rows += [
        [attack, *(_cell(found, algorithm, attack, defence) for algorithm, defence in columns)]
        for (attack,) in _unique((run.attack,) for run in runs)
    ]
    return plain_table(["attack", *(f"{algorithm}, {defence}" for algorithm, defence in columns)], rows)


def _unique(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(rows))


def _cell(found: Outcomes, algorithm: str, attack: str, defence: str) -> str:
    cost = cost_of(found, algorithm=algorithm, attack=attack, defence=defence)
    if cost is None:
        return ""
    if attack == ALONE:
        return f"{cost.accuracy:.1f}"
    gaps = ", ".join("–" if gap is None else f"{gap.mean:+.1f}" for gap in (cost.to_alone, cost.to_honest))
    refused = f"; {cost.refused} refused" if cost.refused else ""
    excluded = f", excluded in {cost.excluded} of {cost.seeds}" if cost.excluded else ""
    return f"{cost.accuracy:.1f} ({gaps}{refused}{excluded})"


CSV_HEADS = (
    "algorithm", "defence", "attack", "seeds", "accuracy", "to_alone", "to_alone_low", "to_alone_high",
    "to_honest", "to_honest_low", "to_honest_high", "refused", "excluded",
)  # fmt: skip


def csv_rows(found: Outcomes) -> Iterator[list[object]]:
    """Yield every cell of the table as a row, with the 95 % intervals of both differences."""
    for algorithm, defence, attack in _unique((run.algorithm, run.defence, run.attack) for run in found):
        cost = cost_of(found, algorithm=algorithm, attack=attack, defence=defence)
        if cost is not None:
            gaps = [*_numbers(cost.to_alone), *_numbers(cost.to_honest)]
            head = [algorithm, defence, attack, cost.seeds, f"{cost.accuracy:.3f}"]
            yield [*head, *gaps, cost.refused, cost.excluded]


def _numbers(gap: PairedDifference | None) -> list[str]:
    return ["", "", ""] if gap is None else [f"{number:.3f}" for number in (gap.mean, gap.low, gap.high)]
