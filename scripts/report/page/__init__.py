"""Writes the report of one comparison as a single HTML file that opens from disk. Importing this package is cheap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    where: Mapping[str, str] | None = None,
    group_key: Path | None = None,
    state: Path | None = None,
) -> Path:
    """Read the runs in these folders, write one page about them and return its path.

    folders: of runs, of sweeps with runs in them, or of a coordinator; an audit beside them adds a section.
    where: only runs with these settings. group_key, state: a member's key and folder, which decrypt sealed scores.
    """
    from fedap_core.errors import InvalidInput
    from participant.sealing.opened_scores import Seal
    from scripts.report.page.finding import find_runs
    from scripts.report.page.leakage import read_leakage
    from scripts.report.page.study import make_study
    from scripts.report.page.writing import write

    if (group_key is None) != (state is None):
        raise InvalidInput("group_key", "one of the two", "both --group-key and --state, or neither")
    seal = None if group_key is None or state is None else Seal(state=state, key_file=group_key)
    return write(make_study(find_runs(folders, where, seal)), out, read_leakage(folders))
