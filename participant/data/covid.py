"""Load the curated COVID-19 chest X-ray set in its publisher's layout: one folder per class, recognised by its name.

Sait et al., Curated Dataset for COVID-19 Posterior-Anterior Chest Radiography Images: `COVID-19`, `Normal`,
`Pneumonia-Bacterial`, `Pneumonia-Viral`. Downloading it needs an account, so it is only read from disk.
"""

from __future__ import annotations

from pathlib import Path

from fedap_core.errors import InvalidInput
from participant.data.base import DataOptions, Dataset
from participant.data.folder import COMMON, images_dataset

WORDS = ("covid", "normal", "bacterial", "viral")
DEFAULT_FOLDER = "Curated X-Ray Dataset"
DEFAULT_SIZE = 224
"""AlexNet's usual input size; grey, because X-rays are: 9,208 images then take 462 MB."""


def load(options: DataOptions) -> Dataset:
    """(n, 1, size, size) uint8 with the classes covid, normal, bacterial, viral. Options: folder (below the data root,
    or absolute), size (224), channels (1), group and site (regular expressions, see the image folder)."""
    options.require_known("covid", (*COMMON, "folder"))
    base = options.folder / options.text("folder", DEFAULT_FOLDER)
    folders = [match_classes(base)[word] for word in WORDS]
    size = options.integer("size", DEFAULT_SIZE, minimum=1)
    return images_dataset("covid", base, folders, WORDS, options, size=size, channels=1)


def match_classes(base: Path) -> dict[str, Path]:
    """Return the sub-folder of each class; InvalidInput unless each word occurs in exactly one folder name, and no
    folder name has two."""
    fix = "Unpack the publisher's archive there, or give its folder with the data option folder=."
    if not base.is_dir():
        raise InvalidInput(str(base), "no such folder", "the unpacked COVID-19 X-ray set", fix)
    matched: dict[str, Path] = {}
    for folder in sorted(entry for entry in base.iterdir() if entry.is_dir()):
        words = [word for word in WORDS if word in folder.name.lower()]
        if len(words) > 1 or (words and words[0] in matched):
            raise InvalidInput(str(folder), f"a second match for {words[-1]!r}", "one folder for each class", fix)
        if words:
            matched[words[0]] = folder
    missing = [word for word in WORDS if word not in matched]
    if missing:
        raise InvalidInput(
            str(base), f"no folder with {missing[0]!r} in its name", f"one each for {', '.join(WORDS)}", fix
        )
    return matched
