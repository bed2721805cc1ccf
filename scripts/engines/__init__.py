"""Registers the ways to run a whole federation, by name. The virtual clock (`continuous`) has its own settings."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from fedap_core.errors import require_known
from scripts.engines.base import Registered

if TYPE_CHECKING:
    from scripts.engines.base import Engine

ENGINES: Mapping[str, Registered] = {
    "inline": Registered(where="scripts.engines.inline:run_inline"),
    "ray": Registered(where="scripts.engines.ray_cluster:run_ray", fills_machine=True),
    "processes": Registered(
        where="scripts.engines.processes.run:run_any",
        modes=("barrier", "continuous"),
        fills_machine=True,
        repeats_noise=False,
    ),
}


def find_engine(name: str) -> Registered:
    """Return the engine of that name."""
    require_known("engine", name, ENGINES)
    return ENGINES[name]


def load_engine(name: str) -> Engine:
    """Import an engine, and torch with it."""
    module, _, function = find_engine(name).where.partition(":")
    return cast("Engine", getattr(importlib.import_module(module), function))
