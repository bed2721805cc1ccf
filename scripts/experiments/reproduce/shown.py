"""What several targets show alike: a table of means, and lines over the setting that a target varies."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.experiments.reproduce.results import Results
from scripts.report import tables
from scripts.report.charts import Series
from scripts.report.figures import colour
from scripts.report.names import written


def means_table(results: Results) -> str:
    """Data sets (and settings) as rows, names as columns, mean ± deviation over seeds; of several the best is bold."""
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
                body.append([_row_name(results, data, at), *cells])
    return tables.plain_table(["", *(written(name) for name in names)], body)


def _row_name(results: Results, data: str, at: str) -> str:
    """The setting alone where one data set is shown, else the data set too."""
    return at if at and len(results.data()) == 1 else " ".join(part for part in (data, at) if part)


def lines_over_settings(results: Results, data: str, names: Sequence[str]) -> list[Series]:
    """One line per algorithm, one value per setting, with its deviation over seeds."""
    settings = results.settings()
    return [
        Series(
            name=written(name),
            colour=colour(name),
            values=tuple(results.one(data, name, at).mean for at in settings),
            deviations=tuple(results.one(data, name, at).deviation for at in settings),
        )
        for name in names
    ]
