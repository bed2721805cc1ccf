"""Local data: one file per source, one table of their names, one function that loads any of them."""

from __future__ import annotations

from fedap_core.errors import unknown_name
from participant.data import har, medmnist_sets, synthetic, watch
from participant.data.base import DataOptions, Dataset, DataSource

SOURCES: dict[str, DataSource] = {
    "har": har.load,
    "synthetic": synthetic.load,
    "watch": watch.load,
    **{flag: medmnist_sets.source(flag) for flag in medmnist_sets.FLAGS},
}


def load_dataset(name: str, options: DataOptions | None = None) -> Dataset:
    """The data set of a known name."""
    medmnist_sets.refuse_unsupported(name)
    if name not in SOURCES:
        raise unknown_name("data", name, SOURCES)
    return SOURCES[name](options or DataOptions())
