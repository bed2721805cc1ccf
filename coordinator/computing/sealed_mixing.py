"""Mixes sealed updates: sums of padded words with integer weights, and the list of uploads in each row.

Reads every giver in order, tile by tile, like `rows`, and discards the whole result if a byte has changed since it was
stored. This code cannot read what the words hide. The weights are decided elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from coordinator.computing.rows import changed, create_rows
from coordinator.decisions.actions import Aggregate
from coordinator.record.blobs import OpenFiles, StoredSet, read_exactly, write_exactly
from coordinator.record.model_forms import Payload
from fedap_core.sealing.fixed_point import WHOLE, Words
from fedap_core.sealing.word_mixing import mix_words
from protocol.limits import SLICE_BYTES
from protocol.naming import Naming
from protocol.sealed_sets import SALT_WORDS, Ingredients, NamedUpload, ingredients_set
from protocol.tensors import Layout, TensorSet

_WORD = 8


class _WordReader:
    """Reads the words of one stored update in order; `is_intact` tells whether its file is unchanged."""

    def __init__(self, stored: StoredSet, files: OpenFiles) -> None:
        self._stored = stored
        self._files = files
        self._passed = xxhash.xxh3_64()

    def read(self, start: int, into: Words) -> None:
        if self._stored.data is not None:
            into[:] = np.frombuffer(self._stored.data, dtype="<u8", count=into.size, offset=start * _WORD)
            return
        with self._files.opened(self._stored.path) as handle:
            read_exactly(handle, into.data, start * _WORD)
        self._passed.update(into.data)

    def is_intact(self) -> bool:
        return self._stored.data is not None or self._passed.intdigest() == self._stored.checksum


def mix_sealed(action: Aggregate, givers: Sequence[StoredSet], paths: Sequence[Path], layout: Layout) -> list[Payload]:
    """Return a row for every receiver, each with its ingredients. paths: where to write them; empty: keep in memory.

    layout: of a row; givers have the layout of an update.
    """
    words = layout.elements
    weights = np.rint(action.weights * WHOLE).astype(np.int64)
    memory = [] if paths else [np.empty(words, dtype="<u8") for _ in action.receivers]
    namings = [Naming() for _ in paths] if layout.size_bytes("f32") > SLICE_BYTES else []
    with OpenFiles() as files:
        readers = [_WordReader(one, files) for one in givers]
        create_rows(paths)

        def read(start: int, tile: Words) -> None:
            for row, reader in zip(tile, readers, strict=True):
                reader.read(start, row)

        def write(start: int, mixed: Words) -> None:
            for number, row in enumerate(mixed):
                if paths:
                    with files.opened(paths[number], os.O_WRONLY) as handle:
                        write_exactly(handle, row.data, start * _WORD)
                else:
                    memory[number][start : start + row.size] = row
                if namings:
                    namings[number].update(row.data)

        mix_words(weights, words, read=read, write=write)
        salts = np.empty((len(givers), SALT_WORDS), dtype="<u8")
        read(words, salts)
        for stored, reader in zip(givers, readers, strict=True):
            if not reader.is_intact():
                raise changed(stored)
    made = _ingredients(action, weights, [one.tobytes() for one in salts])
    nowhere = Path()
    return [
        Payload(
            path=paths[number] if paths else nowhere,
            layout=layout,
            encoding="f32",
            transfer=namings[number].name() if namings else None,
            data=None if paths else memory[number].data.cast("B").toreadonly(),
            uploads=made[number],
        )
        for number in range(len(action.receivers))
    ]


def _ingredients(action: Aggregate, weights: NDArray[np.int64], salts: Sequence[bytes]) -> list[TensorSet]:
    return [
        ingredients_set(
            Ingredients(
                member=receiver.member,
                round_no=receiver.round_no,
                uploads=tuple(
                    NamedUpload(member=giver.member, round_no=giver.round_no, weight=int(weight), salt=salt)
                    for giver, weight, salt in zip(action.givers, row, salts, strict=True)
                    if weight > 0
                ),
            )
        )
        for receiver, row in zip(action.receivers, weights, strict=True)
    ]
