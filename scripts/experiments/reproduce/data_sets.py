"""Lists the paper's data sets, their stand-ins, where each must be stored, and its settings at full and quick scale.

A stand-in keeps its own name: its figures are never shown under the name of the set that it replaces. Data are loaded
here only to download them; a set is available if the one path that its loader reads exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedap_core.errors import InvalidInput
from participant.data import load_dataset
from participant.data.base import ROOT_VARIABLE, DataOptions
from participant.data.medmnist_sets import lookup

_MEDMNIST = "it is downloaded on first use; without a network, download it elsewhere"


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set.

    name: as in `--data`; file: the path below the data folder that its loader reads, empty if it comes with the
    installation; obtain: how to get it; stand_ins: by preference, the last one always available; cohort, run: what
    differs from a run's defaults; quick_cohort, quick_run: further changes for `--quick`.
    """

    name: str
    title: str
    kind: str
    model: str
    file: str = ""
    obtain: str = ""
    downloads: bool = False
    stand_ins: tuple[str, ...] = ()
    cohort: Mapping[str, object] = field(default_factory=dict)
    run: Mapping[str, object] = field(default_factory=dict)
    quick_cohort: Mapping[str, object] = field(default_factory=dict)
    quick_run: Mapping[str, object] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Where the data must be stored on this machine."""
        return DataOptions().folder / self.file

    def is_here(self, *, download: bool) -> bool:
        """Whether the set can be read; downloads it if that is possible and `download` allows it."""
        if not self.file or self.path.exists():
            return True
        if not (download and self.downloads):
            return False
        try:
            load_dataset(self.name)
        except InvalidInput:
            return False
        return True

    @property
    def absence(self) -> str:
        """One sentence that says how to get the missing data."""
        way = self.obtain
        if self.downloads:
            way += f" from {lookup(self.name, 28).file.url}"
        return f"{self.title} is not available: {way}, so that {self.path} exists ({ROOT_VARIABLE} sets the folder)"


def _organ(letter: str) -> DataSet:
    flag = f"organ{letter.lower()}mnist"
    return DataSet(
        name=flag,
        title=f"Organ{letter}MNIST",
        kind="image",
        model="lenet5",
        file=f"{flag}.npz",
        obtain=_MEDMNIST,
        downloads=True,
        stand_ins=("synthetic",) if letter == "A" else ("organamnist", "synthetic"),
        quick_run={"rounds": 10},
    )


_SMALL_STEPS = {"learning_rate": 0.05, "batch_size": 16}
"""With fewer than a hundred training samples per client, the paper's steps would need hundreds of rounds."""

DATA_SETS: dict[str, DataSet] = {
    one.name: one
    for one in (
        DataSet(
            name="pamap2",
            title="PAMAP2",
            kind="sensor-based time series",
            model="har-cnn",
            file="PAMAP2_Dataset/Protocol",
            obtain="download PAMAP2_Dataset.zip from https://archive.ics.uci.edu/dataset/231 and unpack it there",
            stand_ins=("har", "watch"),
            quick_run={"rounds": 10},
        ),
        DataSet(
            name="covid",
            title="COVID-19",
            kind="image",
            model="alexnet",
            file="Curated X-Ray Dataset",
            obtain="download «Curated Dataset for COVID-19 Posterior-Anterior Chest Radiography Images» (Sait et al., "
            "Mendeley Data, with an account) from https://doi.org/10.17632/9xkhgts2s6 and unpack it there",
            stand_ins=("chest", "synthetic"),
            quick_cohort={"data_options": {"size": "64"}},
            quick_run={"rounds": 10, "model": "lenet5"},
        ),
        _organ("A"),
        _organ("C"),
        _organ("S"),
        DataSet(
            name="har",
            title="UCI HAR",
            kind="sensor-based time series",
            model="har-cnn",
            file="uci_har.npz",
            obtain="write UCI HAR (https://archive.ics.uci.edu/dataset/240) as one npz of x, y, subject",
            stand_ins=("watch",),
            quick_run={"rounds": 20},
        ),
        DataSet(
            name="chest",
            title="Chest X-rays (Kermany)",
            kind="image",
            model="lenet5",  # AlexNet has 58 million weights: twenty of them train for days on two cores
            file="chest_xray_64.npz",
            obtain="write Kermany's chest X-rays as one npz of x, y, patient",
            stand_ins=("synthetic",),
            quick_run={"rounds": 10},
        ),
        DataSet(
            name="watch",
            title="Smartwatch (seglearn)",
            kind="sensor-based time series",
            model="har-cnn",
            cohort={"clients": 10},
            run=_SMALL_STEPS,
            quick_run={"rounds": 20},
        ),
        DataSet(
            name="synthetic",
            title="Synthetic images",
            kind="image",
            model="lenet5",
            cohort={
                "clients": 10,
                "data_options": {"samples": "2000", "classes": "8", "sites": "1", "noise": "1.2", "label_shift": "0"},
            },
            run=_SMALL_STEPS,
            quick_run={"rounds": 20},
        ),
    )
}


def data_set(name: str) -> DataSet:
    """Return a known set, or a user's own data under the given name."""
    return DATA_SETS.get(name) or DataSet(name=name, title=name, kind="own data", model="")


def stand_in_for(wanted: DataSet) -> DataSet:
    """Return the first available stand-in; the last of every list comes with the installation."""
    for name in wanted.stand_ins:
        if DATA_SETS[name].is_here(download=False):
            return DATA_SETS[name]
    raise InvalidInput("data", wanted.name, "a data set that is available", wanted.absence)
