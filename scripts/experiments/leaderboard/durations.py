"""Estimates how long a leaderboard's missing runs will take, from finished runs here, else from measured constants.

A run's time is its rounds times its passes over the data times the seconds of a pass, given per data set for one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from scripts.experiments.leaderboard.boards import Board
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings

MEASURED_S = {
    "organamnist": 4.0, "har-people": 1.0, "har": 1.2, "chest": 3.9, "watch": 0.3,
    "organcmnist": 1.6, "organsmnist": 1.7, "pamap2": 3.0,
}  # fmt: skip
"""Seconds of one core (AMD EPYC, AVX2) for one round of one pass over all clients' data, evaluation included. The last
three were not measured but scaled by their number of samples."""


def seconds_of(boards: Sequence[Board], root: Path) -> dict[str, float]:
    """Return the remaining work of every board in seconds of one core, by the board's title."""
    return {board.title: _left(board, root) for board in boards}


def in_words(seconds: float) -> str:
    """Write a duration without false precision."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def _left(board: Board, root: Path) -> float:
    folders = [RunFolder(root, run) for run in board.runs]
    finished = [folder for folder in folders if folder.is_complete()]
    pass_s = _measured(finished) or MEASURED_S[board.data.name]
    done = {folder.path for folder in finished}
    return sum(_passes(folder.settings) * pass_s for folder in folders if folder.path not in done)


def _measured(folders: Sequence[RunFolder]) -> float:
    """Return the seconds of a pass in these runs; 0 if there are none."""
    found = [
        sum(sum(record.seconds.values()) for record in folder.records()) / _passes(folder.settings)
        for folder in folders
    ]
    return median(found) if found else 0.0


def _passes(run: RunSettings) -> float:
    return float(run.rounds * run.strategy().passes(run.sgd.epochs))
