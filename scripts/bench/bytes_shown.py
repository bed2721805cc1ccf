"""Writes the results of `bench bytes`: a table and a figure of accuracy against megabytes. Decides only the format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.encodings import ENCODINGS
from scripts.report.figures import new_figure, save_figure, tidy
from scripts.report.tables import plain_table
from scripts.run.run_folder import write_text

if TYPE_CHECKING:
    from scripts.bench.bytes import EncodedRun

MEGABYTE = 1e6
HEADER = (
    "data", "encoding", "last ten rounds", "kB a round, up", "down", "target", "rounds to it", "MB to it", "of f32"
)  # fmt: skip
COLOURS = dict(
    zip(ENCODINGS, ("#22313a", "#7a8b96", "#b0874a", "#00796b", "#c2571a", "#5e4fa2", "#c2185b"), strict=True)
)


def write_shown(found: Sequence[EncodedRun], folder: Path) -> list[str]:
    """Write bytes.md, bytes.png and bytes.svg, and return a sentence that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "bytes.md", table(found))
    _draw(found, folder / "bytes")
    return [f"Table and figure: {folder / 'bytes.md'}, {folder / 'bytes.png'}."]


def table(found: Sequence[EncodedRun]) -> str:
    """Return a Markdown table with one row per data set and encoding."""
    plain = {one.data.name: one.spent for one in found if one.encoding == "f32"}
    return plain_table(HEADER, [_cells(one, plain.get(one.data.name)) for one in found])


def _cells(one: EncodedRun, plain: float | None) -> tuple[str, ...]:
    reached = "–" if one.reached is None else str(one.reached)
    spent = "–" if one.spent is None else f"{one.spent / MEGABYTE:.2f}"
    share = "–" if one.spent is None or not plain else f"{one.spent / plain:.3f}"
    ways = f"{one.traffic.up / 1000:.1f}", f"{one.traffic.down / 1000:.1f}"
    target = f"{100 * one.data.target:g} %"
    return (
        one.data.title, f"`{one.encoding}`", f"{100 * one.summary.tail:.2f} %", *ways, target, reached, spent, share
    )  # fmt: skip


def _draw(found: Sequence[EncodedRun], path: Path) -> None:
    """Draw one panel per data set; bytes on a logarithmic axis, because the largest would hide the others."""
    titles = list(dict.fromkeys(one.data.title for one in found))
    figure = new_figure(4.6 * len(titles), 3.8)
    for place, title in enumerate(titles):
        axes = figure.add_subplot(1, len(titles), place + 1)
        for one in (one for one in found if one.data.title == title):
            sizes = [one.traffic.until(number + 1) / MEGABYTE for number, _ in one.summary.curve]
            accuracies = [100 * accuracy for _, accuracy in one.summary.curve]
            axes.plot(sizes, accuracies, color=COLOURS[one.encoding], linewidth=1.6, label=one.encoding)
            axes.axhline(100 * one.data.target, color="#9aa8b0", linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_xlabel("MB per participant, both ways")
        axes.set_ylabel("mean accuracy of the clients, %")
        axes.legend(fontsize=8, frameon=False, loc="lower right")
        tidy(axes, grid="both")
    save_figure(figure, path)
