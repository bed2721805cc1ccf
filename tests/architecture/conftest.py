"""Keeps the garbage collector off the syntax trees: they hold no cycles, and a scan of them costs more than parsing."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _no_cycle_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
