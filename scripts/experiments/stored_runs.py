"""Decides whether a sweep may use the runs that it finds: all on one data set come from the same and present data.

Asked before anything is trained. If nothing is missing and the data cannot be read, the runs stand for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from rich.console import Console

from fedap_core.errors import InvalidInput
from participant.data import load_dataset
from participant.data.base import DataOptions
from scripts.run.cohort import make_cohort
from scripts.run.forked import run_in_child
from scripts.run.provenance import FINGERPRINT, fingerprint_of, require_same_fingerprint
from scripts.run.records import Json
from scripts.run.run_folder import RunFolder
from scripts.run.settings import CohortSettings


def require_present_data(folders: Sequence[RunFolder], console: Console, *, runs_missing: bool) -> None:
    """Refuse stored runs of a sweep that come from other data than each other, or than the present data.

    Runs of earlier versions have no fingerprint: they are compared by what they say of their clients if runs are
    missing, because those would stand beside them.
    """
    sources: dict[str, list[tuple[RunFolder, Json]]] = {}
    for folder in folders:
        cohort, stored = folder.settings.cohort, folder.stored_cohort()
        if stored is not None:
            sources.setdefault(f"{cohort.data} {sorted(cohort.data_options.items())}", []).append((folder, stored))
    for found in sources.values():
        known = [(folder, stored[FINGERPRINT]) for folder, stored in found if FINGERPRINT in stored]
        if known:
            _require_fingerprint(known, console, runs_missing=runs_missing)
        if runs_missing:
            _require_same_clients([folder for folder, stored in found if FINGERPRINT not in stored])


def _require_fingerprint(known: Sequence[tuple[RunFolder, str]], console: Console, *, runs_missing: bool) -> None:
    first, fingerprint = known[0]
    source, options = first.settings.cohort.data, first.settings.cohort.data_options
    for folder, stored in known:
        if stored != fingerprint:
            got, expected = f"{stored} in {folder.path}", f"{fingerprint}, as in {first.path}"
            fix = "The data had changed: use another --out, or delete the folder of the older data."
            raise InvalidInput(f"fingerprint of {source}", got, expected, fix)
    try:
        present = run_in_child(partial(_fingerprint_now, source, options, download=runs_missing))
    except InvalidInput as error:
        if runs_missing:
            raise
        console.print(f"Stored runs were not compared with the data. {error}", soft_wrap=True, markup=False)
        return
    require_same_fingerprint(source, fingerprint, present, first.path)


def _fingerprint_now(source: str, options: Mapping[str, str], *, download: bool) -> str:
    return fingerprint_of(load_dataset(source, DataOptions(options=options, download=download)))


def _clients_now(cohort: CohortSettings, seed: int) -> Json:
    return make_cohort(cohort, seed).described()


def _require_same_clients(folders: Sequence[RunFolder]) -> None:
    cohorts: dict[str, Json] = {}
    for folder in folders:
        cohort, seed = folder.settings.cohort, folder.settings.seed
        key = f"{seed} {cohort.model_dump_json()}"
        if key not in cohorts:
            cohorts[key] = run_in_child(partial(_clients_now, cohort, seed))
        folder.require_same_data(cohorts[key])
