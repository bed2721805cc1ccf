"""Makes the data of three hospitals: north, south and east have their own mix of classes, brightness and contrast."""

from __future__ import annotations

import numpy as np

from participant.data import DataOptions, load_dataset

OPTIONS = {"sites": "3", "samples": "900", "label_shift": "0.6", "feature_shift": "0.6"}
everything = load_dataset("synthetic", DataOptions(options=OPTIONS))
for number, name in enumerate(("north", "south", "east")):
    mine = everything.take(np.flatnonzero(everything.site == number))
    known, new = mine.take(np.arange(250)), mine.take(np.arange(250, 300))
    np.savez(f"{name}.npz", x=known.x, y=known.y, classes=np.array(mine.classes))
    np.savez(f"{name}-new.npz", x=new.x)  # images without labels
