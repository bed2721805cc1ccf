"""Formats results: a Markdown table that can be quoted as is, sentences, and JSON with every pass.

Decides only words and columns; `figures` decides what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scripts.bench.figures import BenchResult, Measurements, Threshold, noise_sentence, number
from scripts.report.tables import plain_table

HEADER = ("part", "measured side by side", "median (range)", "must", "goal", "verdict")


@dataclass(frozen=True, kw_only=True)
class PartResult:
    """Results of one part: findings for the table, the series behind them, and notes for the reader."""

    part: str
    findings: tuple[BenchResult, ...]
    series: tuple[Measurements, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


def markdown_table(results: Sequence[PartResult]) -> str:
    """Return all findings of all parts as a table."""
    return plain_table(HEADER, [_cells(result.part, finding) for result in results for finding in result.findings])


def _cells(part: str, finding: BenchResult) -> tuple[str, ...]:
    unit = "" if finding.unit == "x" else f" {finding.unit}"
    shown = number(finding.value)
    if finding.low != finding.high:
        shown += f" ({number(finding.low)}–{number(finding.high)})"
    bar = finding.bar
    sign = "≥ " if bar is not None and bar.higher else "≤ "
    must = "–" if bar is None else f"{sign}{number(bar.must)}{unit}"
    goal = "–" if bar is None or bar.goal is None else f"{sign}{number(bar.goal)}{unit}"
    return part, finding.what, shown + unit, must, goal, finding.verdict


def sentences(result: PartResult) -> list[str]:
    """Describe the series behind a part's ratios, its noise, and its notes."""
    medians = [f"{one.name} {number(one.median)} {one.unit}" for one in result.series]
    lines = [f"{result.part} ({result.seconds:.0f} s): medians {', '.join(medians)}."]
    lines.append(noise_sentence({one.name: one for one in result.series}))
    return [*lines, *result.notes]


def to_json(result: PartResult) -> dict[str, Any]:
    """Convert all results of a part, including every pass."""
    findings = [asdict(finding) | {"verdict": finding.verdict} for finding in result.findings]
    series = [asdict(one) | {"median": one.median, "spread": one.spread} for one in result.series]
    noise = noise_sentence({one.name: one for one in result.series})
    return {"seconds": result.seconds, "findings": findings, "series": series, "noise": noise, "notes": result.notes}


def from_json(part: str, text: Mapping[str, Any]) -> PartResult:
    """The inverse of `to_json`; verdicts, medians and noise follow from the rest."""
    findings = []
    for one in text["findings"]:
        kept = {name: value for name, value in one.items() if name != "verdict"}
        findings.append(BenchResult(**kept | {"bar": None if one["bar"] is None else Threshold(**one["bar"])}))
    series = [Measurements(name=one["name"], unit=one["unit"], values=tuple(one["values"])) for one in text["series"]]
    return PartResult(
        part=part,
        findings=tuple(findings),
        series=tuple(series),
        notes=tuple(text["notes"]),
        seconds=text["seconds"],
    )
