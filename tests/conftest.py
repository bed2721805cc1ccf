"""What holds for every test: tests of whole processes run first, one process more than there are cores runs them, and
Ctrl-C reaches the commands under test, also where the tests run as a background job.
"""

from __future__ import annotations

import os
import signal

import pytest

from tests.support import prefork

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in `sh -c 'tests &'`; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Where several processes run the tests, they share what starts commands for them."""
    if config.getoption("numprocesses", None):
        prefork.serve_this_run()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: "integration" not in item.path.parts)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, for `-n auto`
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests of whole processes also wait, for time-outs of the product and for disks."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1
