"""Finds the runs in the folders a user named: a run's own folder, or the folder of a sweep with runs below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from coordinator.record.journal import JOURNAL
from fedap_core.errors import InvalidInput, unknown_name
from participant.sealing.opened_scores import Seal
from scripts.report.page.journal_folder import read_journal_runs
from scripts.report.page.lab_folder import SETTINGS, read_lab_run
from scripts.run.records import Run


def find_runs(folders: Sequence[Path], where: Mapping[str, str] | None = None, seal: Seal | None = None) -> list[Run]:
    """Return every run of the folders, each once, in the given order. where: only those with these settings.

    A setting is named by its dotted path (cohort.alpha) or its last word (alpha). seal: decrypts sealed scores.
    """
    places = dict.fromkeys(place.resolve() for folder in folders for place in _places(folder))
    runs = [run for place in places for run in _read(place, seal)]
    for key, wanted in (where or {}).items():
        known = [value for run in runs if (value := _setting(run, key)) is not None]
        if not known:
            raise unknown_name("where", key, _choices(runs))
        runs = [run for run in runs if _setting(run, key) == wanted]
        if not runs:
            raise InvalidInput("where", f"{key}={wanted}", f"one of {', '.join(sorted(set(known)))}")
    return runs


def _choices(runs: Sequence[Run]) -> list[str]:
    """Return how settings may be named: by their last word if it is unique, otherwise by their path."""
    paths = sorted({path for run in runs for path in run.settings})
    last = Counter(path.rpartition(".")[2] for path in paths)
    return [path.rpartition(".")[2] if last[path.rpartition(".")[2]] == 1 else path for path in paths]


def _places(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise InvalidInput("run", str(folder), "an existing folder")
    if _is_run(folder):
        yield folder
        return
    below = sorted(path.parent for name in (SETTINGS, JOURNAL) for path in folder.rglob(name))
    if not below:
        raise InvalidInput("run", str(folder), "a run's folder, or a folder with runs in it")
    found = set(below)
    yield from (place for place in below if not found.intersection(place.parents))  # folders inside a run belong to it


def _is_run(folder: Path) -> bool:
    return (folder / SETTINGS).is_file() or (folder / JOURNAL).is_file()


def _read(folder: Path, seal: Seal | None) -> list[Run]:
    return [read_lab_run(folder)] if (folder / SETTINGS).is_file() else read_journal_runs(folder, seal)


def _setting(run: Run, key: str) -> str | None:
    if key in run.settings:
        return run.settings[key]
    return next((value for name, value in run.settings.items() if name.rpartition(".")[2] == key), None)
