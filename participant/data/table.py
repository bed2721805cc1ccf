"""Read a table from a .csv file: a header and rows of text. Callers interpret the columns.

Every error names the file and, if possible, the row and the column.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedap_core.errors import InvalidInput, require_known

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table. header: distinct names. rows: each with as many entries as the header."""

    path: Path
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> NDArray[np.generic]:
        """Return one column: as integers if all its entries are plain ones (so that 10 sorts after 9), else as text."""
        values = self.texts(name)
        if all(_WHOLE.fullmatch(value) for value in values):
            return np.array([int(value) for value in values], dtype=np.int64)
        return np.array(values)

    def texts(self, name: str) -> list[str]:
        """Return one column as text."""
        at = self.position(name)
        return [row[at].strip() for row in self.rows]

    def position(self, name: str) -> int:
        require_known(f"column of {self.path}", name, self.header)
        return self.header.index(name)

    def numbers(self, positions: Sequence[int]) -> NDArray[np.float32]:
        """Return (n, columns); InvalidInput names the row and column of the first entry that is not a finite number."""
        try:
            with np.errstate(over="ignore"):  # values too large for float32 become infinite: reported below
                values = np.array([[float(row[at]) for at in positions] for row in self.rows], dtype=np.float32)
        except ValueError:
            values = np.full((1, 1), np.nan, dtype=np.float32)
        if np.isfinite(values).all():
            return values
        number, at = next((n, at) for n, row in enumerate(self.rows) for at in positions if not _fits(row[at]))
        where = f"{self.path}: row {number + 1}, column {self.header[at]!r}"
        fix = "Or leave the column out: ignore=NAME."
        raise InvalidInput(where, self.rows[number][at] or "nothing", "a finite number of at most 3.4e38", fix)


def read_table(path: Path, separator: str = ",") -> Table:
    """Read and check the whole file: distinct columns, at least one row, as many values in each as in the header."""
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
    return Table(path=path, header=header, rows=rows)


def _fits(text: str) -> bool:
    try:
        return abs(float(text)) <= _LARGEST
    except ValueError:
        return False
