"""Starts commands of the project without loading their imports each time: a server process has loaded them and forks.

One server per command and pytest process. It has no threads and touches no tensor, so that what it forks is as clean
as a process of its own; the child runs the command's `main` with its own arguments, environment, folder and output. It
ends as an interpreter does, threads, exit handlers and output included, but leaves its memory to the system: to free,
object by object, what it shares with the server would copy all of it and take longer than most runs of a test. A server
ends, and its children with it, when the pytest process is gone.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_REQUEST_BYTES = 1 << 17
_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of linux/prctl.h."""
_LOADED_LATER = ("encodings.cp437", "numpy.ctypeslib", "numpy.ma", "numpy.random")
"""Libraries load these at first use."""
_LOADED_BY_COMMAND = {
    "participant.cli": (
        "fedap_core.models.lenet",
        "fedap_core.models.mlp",
        "participant.joining",
        "participant.page.notes",
    ),
    "tests.support.lab": (
        "fedap_core.models.lenet",
        "scripts.drill.parties",
        "scripts.engines.inline",
        "scripts.engines.processes.run",
        "scripts.experiments.sweep",
        "scripts.report.page.finding",
    ),
}
"""The command loads PyTorch only for what needs it; for a test's participant that would be most of its time."""


class Forked:
    """A running command: the part of `subprocess.Popen` that tests use. Its parent is the server, which passes its exit
    code on through a pipe."""

    def __init__(self, pid: int, exit_code: int, stdout: int | None) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = None if stdout is None else os.fdopen(stdout, encoding="utf-8")
        self._exit_code = exit_code

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._exit_code], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._exit_code], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            self.returncode = int(os.read(self._exit_code, 100) or b"-1")  # nothing: the server was killed
            os.close(self._exit_code)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def start(
    module: str,
    arguments: Sequence[str],
    *,
    stderr: int,
    stdout: int | None = None,
    env: Mapping[str, str],
    function: str = "main",
    session_in: Path | None = None,
) -> Forked:
    """Run `module.main()`, or another function, in a process of its own. stdout, stderr: where it prints; without the
    former into a pipe. session_in: the folder to begin in, as the leader of a session; otherwise the present one."""
    line = _server(module)
    exit_code, theirs = os.pipe()
    ours, output = os.pipe() if stdout is None else (None, stdout)
    request = {
        "argv": [module, *arguments],
        "env": dict(env),
        "cwd": str(session_in or Path.cwd()),
        "leads": session_in is not None,
        "function": function,
    }
    socket.send_fds(line, [json.dumps(request).encode()], [theirs, output, stderr])
    pid = int(line.recv(100))
    os.close(theirs)
    if ours is not None:
        os.close(output)
    return Forked(pid, exit_code, ours)


@cache
def _server(module: str) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.prefork", module],
        stdin=theirs.fileno(),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(line: socket.socket) -> str | None:
    """Fork on request. Returns in a child, with the name of the function to run, and with None when nobody is left."""
    running: dict[int, tuple[int, int]] = {}  # its pidfd -> its id, and where its exit code goes
    while True:
        ready, _, _ = select.select([line.fileno(), *running], [], [])
        for ended in set(ready) & running.keys():
            pid, exit_code = running.pop(ended)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.write(exit_code, str(code).encode())
            os.close(exit_code)
            os.close(ended)
        if line.fileno() not in ready:
            continue
        text, handles, _, _ = socket.recv_fds(line, _REQUEST_BYTES, 3)
        if not text:
            return None
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for handle in (*running, *(exit_code for _, exit_code in running.values())):
                os.close(handle)
            request = json.loads(text)
            _become(request, handles, parent)
            return str(request["function"])
        exit_code, *others = handles
        for handle in others:
            os.close(handle)
        running[os.pidfd_open(pid)] = (pid, exit_code)
        line.send(str(pid).encode())


def _become(request: dict[str, Any], handles: Sequence[int], parent: int) -> None:
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    if request["leads"]:
        os.setsid()
    exit_code, stdout, stderr = handles
    os.close(exit_code)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for handle, number in ((nothing, 0), (stdout, 1), (stderr, 2)):  # 0 is the line to whoever asks
        os.dup2(handle, number)
        os.close(handle)
    sys.argv = request["argv"]
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])


def _run(command: Callable[[], None]) -> None:
    """To the end of the process. Whatever an interpreter would have to put into words is left to it."""
    code = 0
    try:
        command()
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]  # the order of Python's own end
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    for name in (*_LOADED_LATER, *_LOADED_BY_COMMAND.get(sys.argv[1], ())):
        importlib.import_module(name)
    gc.freeze()  # a collection in a child would copy every page that it shares
    if function := _serve(socket.socket(fileno=os.dup(0))):
        _run(getattr(module, function))
