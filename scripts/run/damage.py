"""Turns any error raised while reading a damaged file of a run into one line with the file, the line and a fix.

Knows what can go wrong with text from outside, but not what the files mean.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedap_core.errors import InvalidInput

_FIX = "Run it again, or leave this folder out of the report."
_WRONG = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, OSError, sqlite3.Error)


@contextmanager
def intact(path: Path, *, line: int | None = None) -> Iterator[None]:
    """Attribute errors raised inside the block to this file and, if given, this line (counted from 1)."""
    place = f"{path}" if line is None else f"{path}, line {line}"
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error.field}", error.got, error.expected, error.fix or _FIX) from error
    except json.JSONDecodeError as error:
        where = place if line is not None else f"{path}, line {error.lineno}"
        got = f"invalid JSON from column {error.colno} on"
        raise InvalidInput(where, got, "what the run wrote", _FIX) from error
    except _WRONG as error:
        raise InvalidInput(place, _in_words(error), "what the run wrote", _FIX) from error


def _in_words(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no field {error.args[0]!r}"
    if isinstance(error, UnicodeDecodeError):
        return "bytes that are not text"
    if isinstance(error, OSError | sqlite3.Error):
        return f"an unreadable file ({error.strerror if isinstance(error, OSError) else error})"
    return "fields of another kind"
