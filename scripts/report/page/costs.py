"""What the runs cost: time and bytes per round and algorithm, where they were recorded."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from scripts.report.page.bars import Bar, Piece, bars
from scripts.report.page.runs import RoundRecord
from scripts.report.page.study import Algorithm, Study
from scripts.report.page.svg import Svg
from scripts.report.page.wording import duration, size

_PHASES = ("train", "mix", "evaluate")


@dataclass(frozen=True, kw_only=True)
class CostChart:
    """chart: bars; heads and rows: the same as a table; legend: (class, word) of the parts of a bar."""

    chart: Svg
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: tuple[tuple[str, str], ...]


def _records(algorithm: Algorithm, round_no: int) -> list[RoundRecord]:
    return [record for run in algorithm.runs for record in run.rounds if record.number <= round_no]


def _whole(record: RoundRecord) -> float:
    """Wall time of a round: as it was measured, otherwise the sum of its parts."""
    return record.seconds["round"] if "round" in record.seconds else sum(record.seconds.values())


def time_chart(study: Study) -> CostChart | None:
    """Mean seconds per round, by what they were spent on where that is known."""
    rows, table = [], []
    used: set[str] = set()
    for algorithm in study.algorithms:
        timed = [record for record in _records(algorithm, study.round_no) if record.seconds]
        if not timed:
            continue
        whole = fmean(_whole(record) for record in timed)
        parts = {phase: sum(r.seconds.get(phase, 0.0) for r in timed) / len(timed) for phase in _PHASES}
        if not any("round" not in record.seconds for record in timed):
            parts = {"round": whole}
        parts = {phase: seconds for phase, seconds in parts.items() if seconds > 0}
        used |= parts.keys()
        pieces = tuple(
            Piece(amount=seconds, class_=f"phase-{phase}", title=f"{algorithm.name}: {phase} {duration(seconds)}")
            for phase, seconds in parts.items()
        )
        strong = algorithm is study.personal
        rows.append(Bar(name=algorithm.name, pieces=pieces, value=duration(whole), strong=strong))
        spent = sum(_whole(record) for record in timed) / len(algorithm.runs)
        table.append((algorithm.name, duration(whole), duration(spent)))
    if not rows:
        return None
    return CostChart(
        chart=bars(rows, described="Mean time of a round per algorithm"),
        heads=("algorithm", "per round", "whole run"),
        rows=tuple(table),
        legend=tuple((f"phase-{phase}", phase) for phase in (*_PHASES, "round") if phase in used),
    )


def bytes_chart(study: Study) -> CostChart | None:
    """Mean bytes of a participant per round, up and down."""
    rows, table = [], []
    for algorithm in study.algorithms:
        counted = [record for record in _records(algorithm, study.round_no) if record.up or record.down]
        if not counted:
            continue
        up = fmean(fmean(record.up) if record.up else 0.0 for record in counted)
        down = fmean(fmean(record.down) if record.down else 0.0 for record in counted)
        pieces = (
            Piece(amount=up, class_="way-up", title=f"{algorithm.name}: up {size(up)}"),
            Piece(amount=down, class_="way-down", title=f"{algorithm.name}: down {size(down)}"),
        )
        strong = algorithm is study.personal
        rows.append(Bar(name=algorithm.name, pieces=pieces, value=size(up + down), strong=strong))
        per_run = len(counted) / len(algorithm.runs)
        table.append((algorithm.name, size(up), size(down), size((up + down) * per_run)))
    if not rows:
        return None
    return CostChart(
        chart=bars(rows, described="Mean bytes of a participant per round and algorithm"),
        heads=("algorithm", "up per round", "down per round", "whole run"),
        rows=tuple(table),
        legend=(("way-up", "up"), ("way-down", "down")),
    )
