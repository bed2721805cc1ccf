"""Prepares a model's confusion matrix for display, and its most frequent mistakes in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.report.page.wording import percent
from scripts.run.records import Counts

MOST_CLASSES = 26
"""With more classes a matrix is unreadable; then only the most frequent mistakes are listed."""
_MISTAKES = 5


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """rows: (true class, [(count, shade 0..9, is correct)], recall); mistakes: the most frequent as sentences."""

    name: str
    classes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[int, int, bool], ...], str], ...]
    mistakes: tuple[str, ...]


def confusion(name: str, classes: Sequence[str], counts: Counts) -> Confusion:
    """Build the view of a confusion matrix, without classes that neither occur nor are predicted here."""
    used = [at for at in range(len(classes)) if any(counts[at]) or any(row[at] for row in counts)]
    rows = []
    for truth in used:
        whole = sum(counts[truth])
        cells = tuple(
            (counts[truth][guess], min(9, int(10 * counts[truth][guess] / whole)) if whole else 0, truth == guess)
            for guess in used
        )
        rows.append((classes[truth], cells, percent(counts[truth][truth] / whole, 0) if whole else "–"))
    wrong = [(counts[t][g], t, g) for t in used for g in used if t != g and counts[t][g]]
    wrong.sort(key=lambda one: (-one[0], one[1], one[2]))
    mistakes = tuple(f"{classes[t]} taken for {classes[g]}: {count}" for count, t, g in wrong[:_MISTAKES])
    shown = len(used) <= MOST_CLASSES
    return Confusion(
        name=name,
        classes=tuple(classes[at] for at in used) if shown else (),
        rows=tuple(rows) if shown else (),
        mistakes=mistakes,
    )
