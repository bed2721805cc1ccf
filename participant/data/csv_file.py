"""A user's own table: a .csv with a header, one row per sample, a label column, and numbers in the other columns.

Scaling uses constants that the user gives, for all columns or for each, never statistics of the values. The columns'
names, order and constants are the recipe in a model file, by which other hospitals' files are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import Preprocessing
from participant.data.base import DataOptions, Dataset, NewSamples, named_labels, numbered
from participant.data.table import Table, read_table

OPTIONS = {
    "label": "column of the label; default: label",
    "group": "column of the patient or recording: its rows are never divided",
    "site": "column of the client, in the lab",
    "id": "column that names a row in predictions; default: the row's number",
    "ignore": "columns to leave out",
    "columns": "the columns of numbers, in order; default: all others",
    "center, spread": "one constant per column: input = (value - center) / spread",
    "scaling": "a .csv with the columns column, center and spread instead of the three options above",
    "scale, offset": "one constant each for all columns: input = value * scale + offset",
    "shape": "channels x time, as in 3x128; default: 1 x columns",
    "classes": "all classes in order; default: sorted",
    "separator": "one character; default: a comma",
}
_KNOWN = tuple(name for names in OPTIONS for name in names.split(", "))
_ROLES = ("label", "group", "site", "id")


def load(path: Path, options: DataOptions) -> Dataset:
    """Load (n, C, T) float32; options as in OPTIONS."""
    options.require_known(path.name, _KNOWN)
    table = read_table(path, options.text("separator", ","))
    label, group_name, site_name = options.text("label", "label"), options.text("group", ""), options.text("site", "")
    for name in (label, group_name, site_name, options.text("id", ""), *options.texts("ignore")):
        if name:
            table.position(name)
    values = _inputs(table, options)
    listed = options.texts("classes")
    labels = table.column(label)
    y, classes = named_labels(labels.astype(np.str_) if listed else labels, listed, f"{path}: {label}")
    site, site_names = numbered(table.column(site_name)) if site_name else (None, ())
    return Dataset(
        name=path.stem,
        x=values.x,
        y=y,
        classes=classes,
        group=numbered(table.column(group_name))[0] if group_name else np.arange(len(y), dtype=np.int64),
        preprocessing=values.preprocessing,
        site=site,
        site_names=site_names,
    )


def load_new(path: Path, options: DataOptions) -> NewSamples:
    """Load the same rows without labels, which may be missing."""
    options.require_known(path.name, _KNOWN)
    return _inputs(read_table(path, options.text("separator", ",")), options)


def _inputs(table: Table, options: DataOptions) -> NewSamples:
    names, preprocessing = _columns(table, options)
    values = table.numbers([table.position(name) for name in names])
    shape = options.shape("shape", (1, len(names)), dims=(2,))
    if math.prod(shape) != len(names):
        raise InvalidInput("data option 'shape'", options.text("shape", ""), f"{len(names)} values, as many as columns")
    if preprocessing.columns is not None and shape[0] != 1:
        raise InvalidInput("data option 'shape'", options.text("shape", ""), "no shape if every column has constants")
    identity = options.text("id", "")
    ids = table.texts(identity) if identity else [str(number + 1) for number in range(len(table.rows))]
    return NewSamples(x=values.reshape(len(values), *shape), names=tuple(ids), preprocessing=preprocessing)


def _columns(table: Table, options: DataOptions) -> tuple[tuple[str, ...], Preprocessing]:
    """Return the columns to read, in order, and how their values become inputs."""
    if "scaling" in options.options:
        names, centers, spreads = _scaling_file(Path(options.text("scaling", "")).expanduser(), options)
    else:
        taken = {options.text("label", "label"), *(options.text(role, "") for role in _ROLES), *options.texts("ignore")}
        names = options.texts("columns") or tuple(name for name in table.header if name not in taken)
        centers, spreads = options.numbers("center", len(names)), options.numbers("spread", len(names))
    if not names:
        raise InvalidInput(str(table.path), "no column besides label, group and site", "at least one column of numbers")
    recipe = dict(options.recipe_of("shape"))
    if not any("," in name for name in names):
        recipe["columns"] = ",".join(names)
    steps = (f"columns {', '.join(names)}",)
    if not centers and not spreads:
        scale = options.number("scale", 1.0, minimum=-1e9, maximum=1e9)
        offset = options.number("offset", 0.0, minimum=-1e9, maximum=1e9)
        recipe |= dict(options.recipe_of("scale", "offset"))
        return names, Preprocessing(scale=scale, offset=offset, steps=steps, recipe=tuple(recipe.items()))
    if any(options.given(name) is not None for name in ("scale", "offset")):
        raise InvalidInput(
            "data option 'scale'", "scale or offset together with center or spread", "one of the two pairs"
        )
    centers, spreads = centers or (0.0,) * len(names), spreads or (1.0,) * len(names)
    if 0.0 in spreads:
        raise InvalidInput("spread", f"0 for column {names[spreads.index(0.0)]!r}", "a number other than 0")
    recipe |= {"center": _joined(centers), "spread": _joined(spreads)}
    return names, Preprocessing(
        scale=tuple(1.0 / spread for spread in spreads),
        offset=tuple(-center / spread for center, spread in zip(centers, spreads, strict=True)),
        steps=steps,
        recipe=tuple(recipe.items()),
    )


def _scaling_file(path: Path, options: DataOptions) -> tuple[tuple[str, ...], tuple[float, ...], tuple[float, ...]]:
    for other in ("columns", "center", "spread", "scale", "offset"):
        if other in options.options:
            raise InvalidInput(f"data option {other!r}", options.options[other], "no such option together with scaling")
    table = read_table(path)
    table.numbers([table.position("center"), table.position("spread")])  # reports an entry that is not a number
    centers, spreads = (tuple(float(text) for text in table.texts(name)) for name in ("center", "spread"))
    return tuple(table.texts("column")), centers, spreads


def _joined(values: Sequence[float]) -> str:
    return ",".join(repr(value) for value in values)
