"""Decides on which data a target is run, and under which name the result is written.

The paper's sets are used if available. Missing ones are named with instructions to get them; if none is available the
command ends and suggests the stand-in under its own name. A quick version uses the stand-in automatically and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedap_core.errors import InvalidInput
from scripts.experiments.reproduce.data_sets import DATA_SETS, DataSet, data_set, stand_in_for
from scripts.experiments.reproduce.target import Target


class MissingData(InvalidInput):
    """None of the data that a target needs is available."""


@dataclass(frozen=True, kw_only=True)
class ChosenData:
    """stem: name of the files; title: of the figure; remarks: for the user, how to get missing data; notes: for readers
    of the page, who may be elsewhere: what is missing, and what replaces it."""

    data: tuple[DataSet, ...]
    stem: str
    title: str
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def choose(target: Target, asked: Sequence[str], *, quick: bool) -> ChosenData:
    """Choose a target's data. asked: the names in `--data`, empty for the paper's sets."""
    if asked:
        chosen = _asked_for(target, asked, quick=quick)
        own = target.stated and {one.name for one in chosen} == set(target.needs)
        return _named(target, chosen, own=own, quick=quick, notes=_notes_on(target, chosen))
    chosen, remarks, notes, stands_in = [], [], [], False
    for name in target.needs:
        wanted = DATA_SETS[name]
        if wanted.is_here(download=not quick):
            chosen.append(wanted)
        elif quick:
            other = stand_in_for(wanted)
            chosen.append(other)
            remarks.append(f"{wanted.absence}. Shown instead, under its own name: {other.title}.")
            notes.append(f"{wanted.title} was not available; shown instead, under its own name: {other.title}.")
            stands_in = True
        else:
            remarks.append(f"{wanted.absence}. {_offer(target, wanted)}")
            notes.append(f"{wanted.title} is not shown, because it was not available.")
    if not chosen:
        raise MissingData("data", f"none for {target.name}", "the paper's data, or others by name", " ".join(remarks))
    distinct = list({one.name: one for one in chosen}.values())
    own = target.stated and not stands_in
    return _named(target, distinct, own=own, quick=quick, remarks=remarks, notes=notes)


def _notes_on(target: Target, chosen: Sequence[DataSet]) -> list[str]:
    """Say which of the paper's sets are shown and which are other data; nothing if exactly the paper's are."""
    theirs = [one for one in chosen if one.name in target.needs]
    others = [one for one in chosen if one.name not in target.needs]
    whole = len(theirs) == len(target.needs)
    if not target.stated or (whole and not others):
        return []
    stated = _titles(DATA_SETS[name] for name in target.needs)
    if not theirs:
        return [f"The paper shows {stated} here; these are other data."]
    shown = f"Shown here: {'' if whole else 'only '}{_titles(theirs)} of the paper's {stated}"
    return [f"{shown}; other data: {_titles(others)}." if others else f"{shown}."]


def _titles(data: Iterable[DataSet]) -> str:
    return ", ".join(one.title for one in data)


def _asked_for(target: Target, asked: Sequence[str], *, quick: bool) -> list[DataSet]:
    chosen = [data_set(name) for name in dict.fromkeys(asked)]
    for one in chosen:
        if one.name in DATA_SETS and not one.is_here(download=not quick):
            raise MissingData("data", one.name, "data that are available", f"{one.absence}. {_offer(target, one)}")
    if len(chosen) > 1 and len(target.needs) == 1:
        raise InvalidInput("data", ",".join(asked), f"one data set: {target.name} shows one")
    return chosen


def _offer(target: Target, wanted: DataSet) -> str:
    """Suggest the command that uses the stand-in under its own name."""
    for name in wanted.stand_ins:
        if DATA_SETS[name].is_here(download=False):
            title = DATA_SETS[name].title
            return f"Or show {title} instead, under its own name: fedap-lab reproduce {target.name} --data {name}."
    return ""


def _named(
    target: Target,
    data: Sequence[DataSet],
    *,
    own: bool,
    quick: bool,
    remarks: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> ChosenData:
    """Name the result: by the target alone only for the paper's own sets, otherwise with the names of the data."""
    parts = [target.name] if own else [target.stand_in_stem or target.name, *(one.name for one in data)]
    stem = "-".join([*parts, "quick"] if quick else parts)
    return ChosenData(
        data=tuple(data),
        stem=re.sub(r"[^A-Za-z0-9_-]+", "_", stem),
        title=f"{target.headline}: {_titles(data)}" + (", quick" if quick else ""),
        remarks=tuple(remarks),
        notes=tuple(notes),
    )
