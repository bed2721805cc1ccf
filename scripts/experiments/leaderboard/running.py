"""Runs a leaderboard: announces the duration, makes missing runs board by board, writes the page after each.

Durations are estimated from finished runs here, else from measured constants: a run's time is its rounds times its
passes over the data times the seconds of a pass, given per data set for one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.console import Console

from scripts.experiments.leaderboard.boards import Board
from scripts.experiments.sweep import SweepOptions, run_sweep
from scripts.report.leaderboard.standings import BoardStanding, RecipeStanding, stand, stand_all
from scripts.report.leaderboard.writing import write_leaderboard
from scripts.report.page.lab_folder import read_lab_run
from scripts.report.page.study import Study, make_study
from scripts.report.page.wording import counted
from scripts.run.records import Run
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings

MEASURED_S = {
    "organamnist": 4.0, "har-people": 1.0, "har": 1.2, "chest": 3.9, "watch": 0.3,
    "organcmnist": 1.6, "organsmnist": 1.7, "pamap2": 3.0,
}  # fmt: skip
"""Seconds of one core (AMD EPYC, AVX2) for one round of one pass over all clients' data, evaluation included. The last
three were not measured but scaled by their number of samples."""


def run_leaderboard(
    boards: Sequence[Board], sweep: SweepOptions, console: Console, *, run: bool, drop_models: bool = False
) -> Path | None:
    """Make missing runs if `run` is set, and return the page; None if no run is finished. drop_models: delete the
    models of a data set's runs once all of them are complete."""
    announce(boards, sweep, console)
    page = None
    if run:
        for board in boards:
            made = run_sweep(board.runs, sweep, console)
            if drop_models:
                for folder in made:
                    folder.drop_models()
            page = write_finished(boards, sweep.root)
    return page or write_finished(boards, sweep.root)


def announce(boards: Sequence[Board], sweep: SweepOptions, console: Console) -> None:
    """Print what is missing and about how long it takes."""
    left = seconds_of(boards, sweep.root)
    for board in boards:
        missing = sum(not RunFolder(sweep.root, run).is_complete() for run in board.runs)
        took = f"about {in_words(left[board.title] / sweep.jobs)}" if missing else "nothing to run"
        console.print(f"{board.title}: {missing} of {len(board.runs)} runs missing, {took}", highlight=False)
    total = sum(left.values()) / sweep.jobs
    if total:
        console.print(
            f"About {in_words(total)} in total with {sweep.jobs} jobs; can be stopped and resumed at any time."
        )


def write_finished(boards: Sequence[Board], root: Path) -> Path | None:
    """Write the page of the finished runs; None if there are none."""
    found = standings(boards, root)
    return write_leaderboard(found, root, facts=_facts(found)) if found else None


def standings(boards: Sequence[Board], root: Path) -> list[RecipeStanding]:
    """Return what the finished runs say, by recipe; boards without any are left out."""
    recipes: dict[str, list[BoardStanding]] = {}
    for board in boards:
        folders = [RunFolder(root, run) for run in board.runs]
        finished = [read_lab_run(folder.path) for folder in folders if folder.is_complete()]
        if finished:
            study = study_of_common_seeds(finished)
            missing, left_out = len(board.runs) - len(finished), len(finished) - len(study.runs)
            found = stand(board.data.title, study, target=board.data.target, missing=missing, left_out=left_out)
            recipes.setdefault(board.recipe.title, []).append(found)
    return [stand_all(title, found) for title, found in recipes.items()]


def study_of_common_seeds(runs: Sequence[Run]) -> Study:
    """Compare the runs of seeds that every algorithm among them has, because means over different seeds do not compare;
    all runs if there is no such seed."""
    study = make_study(runs)
    common = [run for run in study.runs if run.seed in study.common_seeds]
    return make_study(common) if common else study


def _facts(recipes: Sequence[RecipeStanding]) -> list[str]:
    runs = sum(len(board.study.runs) for one in recipes for board in one.boards)
    sets = {board.title for one in recipes for board in one.boards}
    names = {row.head.name for one in recipes for board in one.boards for row in board.rows}
    return [counted(len(names), "algorithm"), counted(len(sets), "data set"), counted(runs, "run")]


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
