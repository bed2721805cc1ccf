"""A user's own table: a .csv with a header, one row per sample, a label column, and numbers in the other columns.

Scaling is by constants the user states, never by statistics of the values. Every error names its line and column.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedap_core.errors import InvalidInput, unknown_name
from fedap_core.preprocessing import Preprocessing
from participant.data.base import DataOptions, Dataset, named_labels, numbered

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_LARGEST = float(np.finfo(np.float32).max)
_KNOWN = ("label", "group", "site", "ignore", "classes", "shape", "scale", "offset", "separator")


@dataclass(frozen=True, kw_only=True)
class _Table:
    path: Path
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> NDArray[np.generic]:
        """One column: as whole numbers when all its entries are plain ones (so that 10 sorts after 9), else as text."""
        at = self.position(name)
        values = [row[at].strip() for row in self.rows]
        if all(_WHOLE.fullmatch(value) for value in values):
            return np.array([int(value) for value in values], dtype=np.int64)
        return np.array(values)

    def position(self, name: str) -> int:
        if name not in self.header:
            raise unknown_name(f"column of {self.path}", name, self.header)
        return self.header.index(name)


def load(path: Path, options: DataOptions) -> Dataset:
    """(n, C, T) float32. Options: label (column, default label), group and site (columns), ignore (columns), classes
    (names in order), shape (CxT; default 1xT), scale and offset (input = value * scale + offset), separator (,)."""
    options.require_known(path.name, _KNOWN)
    table = _read(path, options.text("separator", ","))
    label, group_name, site_name = options.text("label", "label"), options.text("group", ""), options.text("site", "")
    taken = {label, *options.texts("ignore")} | {name for name in (group_name, site_name) if name}
    positions = [table.position(name) for name in taken]
    features = [at for at in range(len(table.header)) if at not in positions]
    values = _numbers(table, features)
    shape = options.shape("shape", (1, len(features)), dims=(2,))
    if math.prod(shape) != len(features):
        raise InvalidInput(
            "data option 'shape'", options.text("shape", ""), f"{len(features)} values, as many as columns"
        )
    listed = options.texts("classes")
    labels = table.column(label)
    y, classes = named_labels(labels.astype(np.str_) if listed else labels, listed, f"{path}: {label}")
    site, site_names = numbered(table.column(site_name)) if site_name else (None, ())
    return Dataset(
        name=path.stem,
        x=values.reshape(len(values), *shape),
        y=y,
        classes=classes,
        group=numbered(table.column(group_name))[0] if group_name else np.arange(len(values), dtype=np.int64),
        preprocessing=Preprocessing(
            scale=options.number("scale", 1.0, minimum=-1e9, maximum=1e9),
            offset=options.number("offset", 0.0, minimum=-1e9, maximum=1e9),
            steps=("columns as stored",),
        ),
        site=site,
        site_names=site_names,
    )


def _read(path: Path, separator: str) -> _Table:
    if not path.is_file():
        raise InvalidInput(str(path), "no such file", "a .csv with a header")
    if len(separator) != 1:
        raise InvalidInput("data option 'separator'", separator, "one character")
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, delimiter=separator)
            header = tuple(name.strip() for name in next(reader, ()))
            rows = tuple(tuple(row) for row in reader if row)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidInput(str(path), f"unreadable text ({error})", "a .csv in UTF-8") from error
    if not rows or len(set(header)) != len(header):
        raise InvalidInput(
            str(path), f"{len(rows)} rows, columns {', '.join(header)}", "distinct columns and some rows"
        )
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise InvalidInput(f"{path}: row {number + 1}", f"{len(row)} values", f"{len(header)}, as in the header")
    return _Table(path=path, header=header, rows=rows)


def _numbers(table: _Table, features: Sequence[int]) -> NDArray[np.float32]:
    """(n, features); the first entry that is no finite number is named by row and column."""
    if not features:
        raise InvalidInput(str(table.path), "no column besides label, group and site", "at least one column of numbers")
    try:
        with np.errstate(over="ignore"):  # too large for float32 becomes infinite, which the search below names
            values = np.array([[float(row[at]) for at in features] for row in table.rows], dtype=np.float32)
    except ValueError:
        values = np.full((1, 1), np.nan, dtype=np.float32)
    if np.isfinite(values).all():
        return values
    number, at = next((n, at) for n, row in enumerate(table.rows) for at in features if not _fits(row[at]))
    where = f"{table.path}: row {number + 1}, column {table.header[at]!r}"
    fix = "Or leave the column out: ignore=NAME."
    raise InvalidInput(where, table.rows[number][at] or "nothing", "a finite number of at most 3.4e38", fix)


def _fits(text: str) -> bool:
    try:
        return abs(float(text)) <= _LARGEST
    except ValueError:
        return False
