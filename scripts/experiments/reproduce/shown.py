"""Builds what several targets share: tables of means and of clients, and lines over the setting that they vary."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from scripts.experiments.reproduce.data_sets import DataSet
from scripts.experiments.reproduce.results import TargetResults
from scripts.report import tables
from scripts.report.algorithms import colour, spelled
from scripts.report.charts import Series


def means_table(results: TargetResults) -> str:
    """Return data sets (and settings) as rows, names as columns, mean ± deviation over seeds; the best is bold."""
    names, body = results.names(), []
    for data in results.data():
        for at in results.settings():
            found = {m.cell.name: m for m in results.measured if (m.cell.data.name, m.cell.at) == (data, at)}
            if found:
                best = max(m.mean for m in found.values()) if len(names) > 1 else None
                cells = []
                for name in names:
                    m = found.get(name)
                    text = "–" if m is None else f"{m.mean:.2f}" + (f" ± {m.deviation:.2f}" if m.deviation else "")
                    cells.append(f"**{text}**" if m is not None and m.mean == best else text)
                title = next(iter(found.values())).cell.data.title
                body.append([_row_name(title, at, alone=len(results.data()) == 1), *cells])
    return tables.plain_table(["", *(spelled(name) for name in names)], body)


def _row_name(title: str, at: str, *, alone: bool) -> str:
    """Return the setting if there is only one data set, otherwise data set and setting."""
    return at if at and alone else ", ".join(part for part in (title, at) if part)


def clients_table(results: TargetResults, data: DataSet) -> tuple[str, str]:
    """Return (heading, table) of one set, if nothing else varies: clients as rows, names as columns, average below."""
    measured = [m for m in results.measured if m.cell.data.name == data.name]
    body: list[list[object]] = []
    for number, member in enumerate(measured[0].folders[0].members()):
        row = [m.clients[number] for m in measured]
        body.append([member, *(f"**{value:.2f}**" if value == max(row) else f"{value:.2f}" for value in row)])
    body.append(["avg", *(f"{fmean(m.clients):.2f}" for m in measured)])
    of = f" of {data.title}" if len(results.data()) > 1 else ""
    heading = f"Every client{of}, last round, seed {measured[0].cell.runs[0].seed}, %"
    return heading, tables.plain_table(["client", *(spelled(m.cell.name) for m in measured)], body)


def lines_over_settings(results: TargetResults, data: str, names: Sequence[str]) -> list[Series]:
    """Return one line per algorithm with one value per setting and its deviation over seeds."""
    settings = results.settings()
    return [
        Series(
            name=spelled(name),
            colour=colour(name),
            values=tuple(results.one(data, name, at).mean for at in settings),
            deviations=tuple(results.one(data, name, at).deviation for at in settings),
        )
        for name in names
    ]
