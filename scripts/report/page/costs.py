"""Shows what the runs cost: time and bytes per round and algorithm, if they were recorded or can be computed."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from protocol.host.web.svg import Svg
from scripts.report.page.bars import Bar, Piece, bars
from scripts.report.page.headline import traffic
from scripts.report.page.study import Algorithm, Study
from scripts.report.page.wording import duration, listed, size
from scripts.run.records import RoundRecord

_PHASES = ("train", "mix", "evaluate")
_WALL_CLOCK = "Wall-clock time; the machine may have done other work as well."
_HOW_COMPUTED = "Four bytes for each shared value, up and down; the whole run includes what W needs once."


@dataclass(frozen=True, kw_only=True)
class CostChart:
    """chart: bars; heads, rows: the same as a table; legend: (class, word) of the parts of a bar.

    note: how far the figures can be trusted.
    """

    chart: Svg
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: tuple[tuple[str, str], ...]
    note: str


def _records(algorithm: Algorithm, round_no: int) -> list[RoundRecord]:
    return [record for run in algorithm.runs for record in run.rounds if record.number <= round_no]


def _whole(record: RoundRecord) -> float:
    """Return the wall time of a round: the measured one if there is one, otherwise the sum of its parts."""
    return record.seconds["round"] if "round" in record.seconds else sum(record.seconds.values())


def time_chart(study: Study) -> CostChart | None:
    """Draw mean seconds per round, by what they were spent on if that is known."""
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
        note=_WALL_CLOCK,
    )


def _bytes_of(algorithm: Algorithm, round_no: int) -> tuple[float, float] | None:
    """Return mean bytes of a participant per round, up and down."""
    counted = [record for record in _records(algorithm, round_no) if record.up or record.down]
    if counted:
        up = fmean(fmean(record.up) if record.up else 0.0 for record in counted)
        down = fmean(fmean(record.down) if record.down else 0.0 for record in counted)
        return up, down
    return next(((run.computed.up, run.computed.down) for run in algorithm.runs if run.computed is not None), None)


def computed_note(study: Study) -> str:
    """Say which algorithms' bytes are computed; empty if all were measured."""
    computed = [a for a in study.algorithms if any(run.computed is not None for run in a.runs)]
    if not computed:
        return ""
    whose = "" if len(computed) == len(study.algorithms) else f" of {listed([one.name for one in computed])}"
    return f"Bytes{whose} are computed, not measured."


def bytes_chart(study: Study) -> CostChart | None:
    """Draw bytes of a participant per round, up and down."""
    rows, table = [], []
    for algorithm in study.algorithms:
        found = _bytes_of(algorithm, study.round_no)
        if found is None:
            continue
        up, down = found
        whole = fmean(traffic(run, study.round_no) or 0.0 for run in algorithm.runs)
        pieces = (
            Piece(amount=up, class_="way-up", title=f"{algorithm.name}: up {size(up)}"),
            Piece(amount=down, class_="way-down", title=f"{algorithm.name}: down {size(down)}"),
        )
        strong = algorithm is study.personal
        rows.append(Bar(name=algorithm.name, pieces=pieces, value=size(up + down), strong=strong))
        table.append((algorithm.name, size(up), size(down), size(whole)))
    if not rows:
        return None
    note = computed_note(study)
    return CostChart(
        chart=bars(rows, described="Mean bytes of a participant per round and algorithm"),
        heads=("algorithm", "up per round", "down per round", "whole run"),
        rows=tuple(table),
        legend=(("way-up", "up"), ("way-down", "down")),
        note=f"{note} {_HOW_COMPUTED}" if note else "",
    )
