"""The claim that a command which is interrupted while it loads ends in one line and 130, without a traceback. Real
processes that interrupt themselves when they look for a module."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.federation import WAIT_S
from tests.support.prefork import ROOT

_INTERRUPTED = """
import importlib, os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell hands SIGINT down as ignored
sys.meta_path.insert(0, Interrupting())
_, command, wanted = sys.argv
sys.argv = [command, "--help"]
importlib.import_module(command + ".__main__").main()
"""


@pytest.mark.parametrize("command", ["coordinator", "participant", pytest.param("scripts", marks=pytest.mark.slow)])
@pytest.mark.parametrize("module", ["fedap_core.errors", "difflib", "typer", "pydantic"])
def test_interrupt_while_a_command_loads_ends_it_in_one_line(command: str, module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, command, module], capture_output=True, text=True, check=False,
        timeout=WAIT_S, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (130, "interrupted\n", "")
