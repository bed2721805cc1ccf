"""What each extra of the installation brings, and what a command says where one is missing. The libraries are hidden
from a new interpreter, so that it is as if they had never been installed."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fedap_core.extras import EXTRAS
from tests.architecture.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CALL = (
    "import sys; sys.modules.update(dict.fromkeys({hidden!r})); sys.argv = {argv!r}; from {module} import main; main()"
)


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in requirements}


def call(module: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in an interpreter that has no library of any extra."""
    program = CALL.format(hidden=sorted(EXTRAS), argv=["fedap", *arguments], module=module)
    return subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def distributions() -> dict[str, set[str]]:
    """Import name -> the packages that bring it. Reading the metadata of every package takes a while."""
    found = importlib.metadata.packages_distributions()
    return {library: {canonicalize_name(name) for name in found.get(library, [library])} for library in EXTRAS}


def test_library_is_brought_by_the_extra_that_its_sentence_names(distributions: dict[str, set[str]]) -> None:
    extras = {extra: names(wanted) for extra, wanted in PROJECT["optional-dependencies"].items()}
    assert [library for library, extra in EXTRAS.items() if not distributions[library] & extras[extra]] == []
    assert [library for library in EXTRAS if distributions[library] & names(PROJECT["dependencies"])] == []


def test_every_library_of_an_extra_for_users_has_its_sentence(distributions: dict[str, set[str]]) -> None:
    """The other extras are for development: scripts/test.sh calls their tools."""
    told = set().union(*distributions.values()) | {"fedap"}
    extras = PROJECT["optional-dependencies"]
    assert {
        extra: names(extras[extra]) - told for extra in extras.keys() - {"docs", "test"} if names(extras[extra]) - told
    } == {}


def test_all_brings_every_extra_for_users() -> None:
    extras = PROJECT["optional-dependencies"]
    (whole,) = extras["all"]
    taken = Requirement(whole).extras | {"all"}
    assert set(extras) - {"docs", "test", "bench", "fuzz", "participant"} == taken
    assert "all" in Requirement(extras["test"][0]).extras


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("participant.__main__", ["--help"]),
        ("scripts.__main__", ["compare", "--data", "watch", "--algorithms", "fedavg", "--rounds", "1"]),
    ],
)
def test_command_without_its_extra_ends_in_one_line_with_the_command_that_installs_it(
    module: str, arguments: list[str], tmp_path: Path
) -> None:
    done = call(module, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Install it: pip install 'fedap[" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_coordinator_needs_no_extra(tmp_path: Path) -> None:
    done = call("coordinator.cli", "keygen", "--out", "a.key", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "a.key").exists()
