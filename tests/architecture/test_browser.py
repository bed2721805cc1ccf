"""When the test script installs a Chromium and when it lets the page's tests skip. The packet manager is a stand-in."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

CALL = f"say() {{ echo \"fedap: $*\" >&2; }}; source '{ROOT}/scripts/browser.sh'; ensure_browser"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root installs")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """The only folder on the PATH: a few real tools, no browser."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("bash", "env", "timeout", "tail", "cp", "chmod"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def put(tools: Path, name: str, does: str) -> None:
    (tools / name).write_text(f"#!/usr/bin/env bash\n{does}\n")
    (tools / name).chmod(0o755)


def ensure(tools: Path) -> str:
    """What it says; it never fails."""
    bash = str(tools / "bash")
    done = subprocess.run([bash, "-c", CALL], env={"PATH": str(tools)}, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "")
    return done.stderr


def test_browser_that_is_there_is_enough(tools: Path) -> None:
    put(tools, "chromium", "exit 0")
    put(tools, "apt-get", "echo called >&2")
    assert ensure(tools) == ""


def test_without_a_packet_manager_the_tests_skip_in_one_line(tools: Path) -> None:
    assert ensure(tools) == "fedap: no Chromium: the tests of the report's page skip\n"


@as_root
def test_missing_browser_is_installed_once(tools: Path) -> None:
    put(
        tools,
        "apt-get",
        f'echo "$*" >>"{tools}/log"; [[ "$*" != *install* ]] || cp "{tools}/apt-get" "{tools}/chromium"',
    )
    assert ensure(tools) == "fedap: installing Chromium for the tests of the report's page\n"
    asked = (tools / "log").read_text().splitlines()
    assert [line.split()[-1] for line in asked] == ["update", "chromium"]
    assert "--no-install-recommends" in asked[1]
    assert ensure(tools) == ""


@as_root
def test_failed_install_is_reported_and_the_tests_are_skipped(tools: Path) -> None:
    put(tools, "apt-get", "echo words of the packet manager; exit 100")
    told = ensure(tools)
    assert "words of the packet manager" in told
    assert told.endswith("fedap: Chromium could not be installed: the tests of the report's page skip\n")
