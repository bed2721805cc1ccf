"""The rules that every file keeps: import directions, no torch on the coordinator's side, no unsafe loading,
no hidden randomness, sizes, names, opening sentences, tests that can fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.architecture import checks
from tests.architecture.imports import (
    HOST,
    PURE_PLACES,
    direction_faults,
    layer_faults,
    purity_faults,
    reachable,
    within,
)
from tests.architecture.sources import PACKAGES, ROOT, SourceFile, python_sources, sources_of_packages, sources_of_tests

MAY_UNPICKLE = (
    "participant/data/watch.py",
    "tests/unit/data/test_watch.py",
    "tests/unit/data/test_npz.py",
    "tests/unit/test_weights.py",
)
"""The bundled demo recordings of a pinned dependency are a pickle: hash checked, read by an unpickler that knows a few
array types and nothing else. The tests write hostile files, to see them refused."""

MAY_PRINT = ("fedap_core/errors.py",)
"""Holds the way in which every command of both sides ends on wrong input: one line on stderr."""

TORCH_FREE = ("protocol", "coordinator")

EVERY_FILE = (*sources_of_packages(), *sources_of_tests())

EVERYWHERE: dict[str, Callable[[SourceFile], list[str]]] = {
    "sleeps": checks.sleeping,
    "too long": checks.size_faults,
    "no opening sentence": checks.docstring_faults,
    "vague names": checks.name_faults,
}


@pytest.mark.parametrize("rule", EVERYWHERE)
def test_no_file_breaks_the_rule(rule: str) -> None:
    assert [fault for source in EVERY_FILE for fault in EVERYWHERE[rule](source)] == []


def test_packages_draw_only_from_generators_passed_in() -> None:
    assert [fault for source in sources_of_packages() for fault in checks.global_randomness(source)] == []


def test_tests_leave_the_global_generators_alone() -> None:
    """They may draw from torch's own, seeded only inside fork_rng; never from numpy's or the standard library's."""
    faults = [fault for source in sources_of_tests() for fault in checks.global_randomness(source)]
    assert [fault for fault in faults if checks.UNSEEDED_DRAW not in fault] == []


def test_every_package_imports_only_what_its_law_allows() -> None:
    assert [fault for source in sources_of_packages() for fault in direction_faults(source)] == []


def test_every_sub_package_imports_only_what_its_layer_allows() -> None:
    assert [fault for source in sources_of_packages() for fault in layer_faults(source)] == []


def test_pure_packages_know_no_files_sockets_clocks_or_logs() -> None:
    pure = [source for source in sources_of_packages() if within(source.module, PURE_PLACES)]
    judged = [one for one in pure if one.path not in MAY_PRINT and not within(one.module, [HOST])]
    assert [fault for source in judged for fault in purity_faults(source)] == []


def test_torch_cannot_be_reached_from_protocol_or_coordinator() -> None:
    found = reachable(sources_of_packages(), TORCH_FREE)
    chain = ["torch"]
    while chain[-1] in found and found[chain[-1]]:
        chain.append(found[chain[-1]])
    assert "torch" not in found, " <- ".join(chain)


def test_importing_all_of_protocol_and_coordinator_loads_no_torch() -> None:
    modules = [source.module for source in python_sources(*TORCH_FREE)]
    program = f"import importlib, sys\nfor module in {modules!r}: importlib.import_module(module)\n"
    program += "print(*{name.partition('.')[0] for name in sys.modules} & {'torch', 'torchvision', 'participant'})"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


def test_nothing_loads_data_that_could_run_code() -> None:
    judged = [source for source in EVERY_FILE if source.path not in MAY_UNPICKLE]
    assert [fault for source in judged for fault in checks.unsafe_loading(source)] == []


def test_torchvision_is_imported_nowhere() -> None:
    assert "torchvision" not in reachable(EVERY_FILE, (*PACKAGES, "tests"))


def test_every_test_can_fail() -> None:
    assert [fault for source in sources_of_tests() for fault in checks.idle_tests(source)] == []


def test_type_name_is_defined_once() -> None:
    assert checks.doubled_types(sources_of_packages()) == {}
