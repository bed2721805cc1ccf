"""Decides whether what an earlier run stored comes from the present data: equal settings do not say so, because a file
may have been replaced.

The data are no part of a run's name. A fingerprint of them is stored beside its results instead, and compared before
they are used. Reads and writes no files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xxhash

from fedap_core.errors import InvalidInput, shortened
from fedap_core.model_spec import ModelSpec
from participant.data.base import Dataset
from scripts.run.records import Json

FINGERPRINT = "fingerprint"
"""Name of the data's fingerprint in what a run folder says of its clients, and in an anchor's notes."""

_FIX = "The data have changed: use another --out, or delete that"
_MOST_NAMED = 3


def fingerprint_of(data: Dataset) -> str:
    """Return a digest of everything that divides or trains: samples, labels, groups, spans, sites, names of classes,
    preprocessing. XXH3 detects changes at the speed of memory; nobody is kept from making a collision."""
    found = xxhash.xxh3_128()
    described = {
        "classes": data.classes,
        "sites": data.site_names,
        "overlapping": data.overlapping,
        "preprocessing": data.preprocessing.to_list(),
    }
    found.update(json.dumps(described).encode())
    for name, array in (("x", data.x), ("y", data.y), ("group", data.group), ("span", data.span), ("site", data.site)):
        if array is not None:
            found.update(f"{name} {array.dtype.str} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def require_same_data(source: str, stored: Json, found: Json, place: Path) -> None:
    """Refuse results in the folder `place` that come from other data than these. source: the name of the data; stored,
    found: what run folders say of their clients. Folders of earlier versions have no fingerprint: equal clients,
    classes and class counts are accepted."""
    for field in ("clients", "classes"):
        _require_equal(f"{field} of {source}", stored.get(field), found.get(field), place, "folder")
    if FINGERPRINT in stored and FINGERPRINT in found:
        require_same_fingerprint(source, str(stored[FINGERPRINT]), found[FINGERPRINT], place)
        return
    before, now = stored.get("class_counts"), found.get("class_counts")
    if before is not None and now is not None:
        for client, old, new in zip(found["clients"], before, now, strict=False):
            _require_equal(f"class counts of client {client} of {source}", old, new, place, "folder")


def require_same_fingerprint(source: str, stored: str, found: str, place: Path, what: str = "folder") -> None:
    """Refuse what was made from data with another fingerprint. what: the kind of thing at `place`."""
    _require_equal(f"fingerprint of {source}", stored, found, place, what)


def require_fitting_model(source: str, spec: ModelSpec, data: Dataset, place: Path) -> None:
    """Refuse an initial model file that was made for data of another kind; values do not matter to it."""
    for field, stored, found in (
        ("classes", spec.classes, data.classes),
        ("input shape", spec.input_shape, data.input_shape),
        ("preprocessing", spec.preprocessing, data.preprocessing),
    ):
        _require_equal(f"{field} of {source}", stored, found, place, "file")


def _require_equal(field: str, stored: object, found: object, place: Path, what: str) -> None:
    if stored is None or found is None or _plain(stored) == _plain(found):
        return
    raise InvalidInput(field, _in_words(found), f"{_in_words(stored)}, as in {place}", f"{_FIX} {what}.")


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _in_words(value: object) -> str:
    """Write a list of names as its length and the first ones."""
    if isinstance(value, Sequence) and value and all(isinstance(name, str) for name in value):
        return value if isinstance(value, str) else f"{len(value)} ({shortened(value, _MOST_NAMED)})"
    return str(value)
