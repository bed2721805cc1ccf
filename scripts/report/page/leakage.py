"""Turns an audit's findings, read from the audit.json beside the runs, into tables of text. Knows no attack.

The audit prints the same tables; their columns are decided here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.run.damage import intact

AUDIT = "audit.json"
ABOUT, ALGORITHM, STATISTICS, UPDATES = "about", "algorithm ", "statistics ", "updates "
"""Prefixes of the findings' names: the whole audit, an algorithm, a budget for statistics or for updates."""
EXACT = "exact"
RECOVERY = "recovery"
SINGULAR = 1e12
"""Condition number above which W·X = Y cannot be solved."""

Found = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LeakTable:
    """One table. note: what its numbers mean, in a sentence or two. words: text columns before the numbers."""

    title: str
    note: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


@dataclass(frozen=True, kw_only=True)
class Leakage:
    """about: which data, how many clients and rounds."""

    about: str
    tables: tuple[LeakTable, ...]


def read_leakage(folders: Sequence[Path]) -> Leakage | None:
    """Read the audit in these folders or beside them; None if there is none."""
    places = (place / AUDIT for folder in folders for place in (folder, folder.resolve().parent))
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        return None
    with intact(path):
        return leakage_of(json.loads(path.read_text(encoding="utf-8")))


def leakage_of(found: Found) -> Leakage:
    """Return all tables that have rows."""
    tables = (_membership(found), _recovery(found), _statistics(found), _updates(found))
    return Leakage(about=str(found.get(ABOUT, "")), tables=tuple(table for table in tables if table.rows))


def _of(found: Found, kind: str) -> Iterator[tuple[str, Found]]:
    return ((key.removeprefix(kind), value) for key, value in found.items() if key.startswith(kind))


def _membership(found: Found) -> LeakTable:
    rows = []
    for name, attacks in _of(found, ALGORITHM):
        for target in dict.fromkeys(key.partition(", ")[0] for key in attacks if key != RECOVERY):
            both = [attacks[f"{target}, {how}"] for how in ("loss", "reference")]
            rows.append((name, target, *map(_area, both), *(f"{100 * one['hits']:.1f} %" for one in both)))
    return LeakTable(
        title="Was a sample among the training samples?",
        note="AUC with its 95 % interval over clients: 0.5 is guessing. By loss: of the sample alone. By reference: "
        "how much lower it is than under a model that the attacker trained on data of its own. Found: members at 1 % "
        "false alarms.",
        head=("algorithm", "what is attacked", "AUC by loss", "AUC by reference", "found by loss", "by reference"),
        rows=tuple(rows),
        words=2,
    )


def _recovery(found: Found) -> LeakTable:
    rows = []
    for name, attacks in _of(found, ALGORITHM):
        if one := attacks.get(RECOVERY):
            condition = "singular" if one["condition"] > SINGULAR else f"{one['condition']:.3g}"
            shown = (f"{one[key]:.3g}" for key in ("largest", "all_rows", "one_member", "sealed"))
            rows.append((name, condition, *shown))
    return LeakTable(
        title="Can updates be recovered from what is delivered?",
        note="Errors of an attacker who solves W·X = Y for the updates: 0 is the update itself, 1 is no better than "
        "the average of all. «sealed»: the coordinator of a sealed run, who sees padded words.",
        head=(
            "algorithm", "condition of W", "largest weight of a peer", "error: all rows seen", "one member", "sealed"
        ),
        rows=tuple(rows),
    )  # fmt: skip


def _statistics(found: Found) -> LeakTable:
    rows = []
    for name, one in _of(found, STATISTICS):
        shown = f"ε = {name}" if name[:1].isdigit() else name
        shares = f"{one['error']:.3f} ({one['guess']:.3f})"
        rows.append((shown, f"{one['correlation']:.3f}", _percent(one["accuracy"]), shares, f"{one['auc']:.3f}"))
    return LeakTable(
        title="What do layer statistics tell about classes?",
        note="ε is the privacy budget of one release, without which statistics are exact. «guessing» says the mean.",
        head=(
            "statistics of fedap", "W's correlation with the exact one", "accuracy", "error of class shares (guessing)",
            "AUC of present classes",
        ),
        rows=tuple(rows),
    )  # fmt: skip


def _updates(found: Found) -> LeakTable:
    rows = []
    for name, one in _of(found, UPDATES):
        shown = name if name == EXACT else f"{float(name):g}"
        together = "–" if one["together"] is None else f"{one['together']:.3g}"
        rows.append((shown, together, _percent(one["accuracy"]), _area(one["loss"]), _area(one["reference"])))
    return LeakTable(
        title="What does noise in updates cost, and prevent?",
        note="Private for the silo. AUC of membership inference against the weights that leave.",
        head=("ε of one round", "ε of the run", "accuracy", "AUC, loss", "AUC, reference"),
        rows=tuple(rows),
    )


def _area(one: Found) -> str:
    return f"{one['auc']:.3f} ({one['low']:.3f} to {one['high']:.3f})"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"
