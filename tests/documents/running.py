"""Runs the blocks of a page in order in one folder, as a reader would who pastes them one after the other.

Shell blocks are scripts of their own; Python blocks of a page share one interpreter and its names. Whatever fails is
reported with the page's line and what the block printed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.architecture.sources import ROOT
from tests.documents.blocks import Block, replaced

LIMIT_S = 600.0
"""Until a block counts as hanging."""

_INTERPRETER = """
import json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "the page", "exec"), names)
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
    print("\\x04", flush=True)
"""
"""Executes one block for each line of input, and answers with a line when it is done."""


class PageFailed(AssertionError):
    """A block did not do what the page says."""


class Reader:
    """Somebody who follows a page in `folder`. On leaving, everything in the background must have ended well."""

    def __init__(self, page: str, folder: Path) -> None:
        self._page = page
        self._folder = folder
        self._background: list[tuple[Block, subprocess.Popen[str]]] = []
        self._interpreter: subprocess.Popen[str] | None = None
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        self._environment = {
            **os.environ,
            "PATH": path,
            "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
            "COLUMNS": "120",
            "MPLBACKEND": "Agg",
        }

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self._wait()
        finally:
            children = [process for _, process in self._background]
            for process in [*children, *([self._interpreter] if self._interpreter else [])]:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    def follow(self, blocks: Iterable[Block]) -> int:
        """Do what the blocks say, in order; how many of them ran."""
        ran = 0
        for block in blocks:
            if block.marks.wait:
                self._wait()
            if block.title:
                path = self._folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(replaced(block.code, block.marks), encoding="utf-8")
            elif block.runs:
                ran += 1
                (self._execute if block.language == "python" else self._shell)(block)
        return ran

    def _started(self, command: list[str], stdin: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=self._folder, env=self._environment, text=True, start_new_session=True,
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def _shell(self, block: Block) -> None:
        script = f"set -euo pipefail\n{replaced(block.code, block.marks)}"
        process = self._started(["bash", "-c", script], subprocess.DEVNULL)
        self._background.append((block, process))
        if not block.marks.background:
            self._finish(block, process)

    def _wait(self) -> None:
        while self._background:
            self._finish(*self._background[0])

    def _finish(self, block: Block, process: subprocess.Popen[str]) -> None:
        try:
            printed, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise PageFailed(f"{self._page}:{block.line}: still running after {LIMIT_S:g} s") from error
        self._background.remove((block, process))
        if process.returncode != block.marks.exit_code:
            raise PageFailed(f"{self._page}:{block.line}: exit code {process.returncode}\n{block.code}\n{printed}")

    def _execute(self, block: Block) -> None:
        if self._interpreter is None:
            self._interpreter = self._started([sys.executable, "-c", _INTERPRETER], subprocess.PIPE)
        stdin, stdout = self._interpreter.stdin, self._interpreter.stdout
        if stdin is None or stdout is None:
            raise PageFailed("an interpreter without pipes")
        stdin.write(json.dumps(replaced(block.code, block.marks)) + "\n")
        stdin.flush()
        printed = []
        for line in stdout:
            if line == "\x04\n":
                return
            printed.append(line)
        raise PageFailed(f"{self._page}:{block.line}: {''.join(printed)}")
