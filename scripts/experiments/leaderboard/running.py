"""Runs a leaderboard: announces the duration, makes missing runs board by board, writes the page after each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from scripts.experiments.leaderboard.boards import Board
from scripts.experiments.leaderboard.durations import in_words, seconds_of
from scripts.experiments.sweep import SweepOptions, run_sweep
from scripts.report.leaderboard.standings import BoardStanding, RecipeStanding, stand, stand_all
from scripts.report.leaderboard.writing import write_leaderboard
from scripts.report.page.lab_folder import read_lab_run
from scripts.report.page.study import make_study
from scripts.report.page.wording import counted
from scripts.run.run_folder import RunFolder


def run_leaderboard(boards: Sequence[Board], sweep: SweepOptions, console: Console, *, run: bool) -> Path | None:
    """Make missing runs if `run` is set, and return the page; None if no run is finished."""
    announce(boards, sweep, console)
    page = None
    if run:
        for board in boards:
            run_sweep(board.runs, sweep, console)
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
    recipes: dict[str, list[BoardStanding]] = {}
    for board in boards:
        folders = [folder for run in board.runs if (folder := RunFolder(root, run)).is_complete()]
        if folders:
            study = make_study([read_lab_run(folder.path) for folder in folders])
            missing = len(board.runs) - len(folders)
            found = stand(board.data.title, study, target=board.data.target, missing=missing)
            recipes.setdefault(board.recipe.title, []).append(found)
    if not recipes:
        return None
    standings = [stand_all(title, found) for title, found in recipes.items()]
    return write_leaderboard(standings, root, facts=_facts(standings))


def _facts(recipes: Sequence[RecipeStanding]) -> list[str]:
    runs = sum(len(board.study.runs) for one in recipes for board in one.boards)
    sets = {board.title for one in recipes for board in one.boards}
    names = {row.head.name for one in recipes for board in one.boards for row in board.rows}
    return [counted(len(names), "algorithm"), counted(len(sets), "data set"), counted(runs, "run")]
