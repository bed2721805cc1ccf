"""Hospitals with files of their own in a real federation: a coordinator and participants in threads of this process,
over real sockets, from an initial model file to everybody's personal model."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from participant.config import JoinSettings
from participant.joining import Host, join
from protocol.plan import PAPER_RECIPE
from tests.support.federation import RunningCoordinator, fields

Given = Mapping[str, object]


def federate(
    folder: Path,
    initial: Path,
    hospitals: Mapping[str, Given],
    *,
    rounds: int = 2,
    algorithm: str = "fedap",
    learning_rate: float = 0.05,
) -> dict[str, Path]:
    """Run it to its end; the state folder of every hospital. hospitals: by name, `data` and other settings of join."""
    members = {"names": tuple(hospitals), "at_least": len(hospitals), "min_samples": 2}
    run = fields(folder / "run", initial, rounds=rounds, algorithm=algorithm, members=members)
    coordinator = RunningCoordinator(
        run | {"training": {**PAPER_RECIPE, "learning_rate": learning_rate, "batch_size": 8}}
    )
    states = {name: folder / f"{name}-state" for name in hospitals}
    host = Host.of(len(hospitals))
    with ThreadPoolExecutor(len(hospitals)) as threads:
        asked = [
            JoinSettings.model_validate(
                {
                    "coordinator": coordinator.federation.endpoint,
                    "name": name,
                    "model_file": initial,
                    "state": states[name],
                }
                | {"give_up_s": 60.0, **given}
            )
            for name, given in hospitals.items()
        ]
        ends = [threads.submit(join, settings, host=host) for settings in asked]
        for end in ends:
            assert end.result().code == 0, end.result().reason
    coordinator.join()
    host.close()
    return states


def write_images(folder: Path, counts: Mapping[str, int], *, size: int = 16, seed: int = 0) -> None:
    """One sub-folder of grey png files per class; the brighter, the later the class is in the alphabet."""
    rng = np.random.default_rng(seed)
    for name, count in counts.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            level = 20 * (ord(name[0]) % 10) + 20
            pixels: NDArray[np.uint8] = rng.integers(level - 20, level + 20, (size, size)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"P{number:03d}.png")
