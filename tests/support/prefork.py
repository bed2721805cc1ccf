"""Starts commands of the project without loading their imports each time: a server process has loaded them and forks.

One server per command, for all processes of a test run: whoever runs the tests starts a process that hands callers over
and forks the server of a command at its first call. A server has no threads and touches no tensor, so that what it
forks is as clean as a process of its own; the child runs the command's `main` with its own arguments, environment,
folder and output. It ends as an interpreter does, threads, exit handlers and output included, but leaves its memory to
the system: to free, object by object, what it shares with the server would copy all of it and take longer than most
runs of a test. Servers end, and their children with them, when the test run is gone; when one of its processes is gone,
what that one had started ends.
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
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_ADDRESS = "FEDAP_TEST_SERVERS"
"""Where the servers of the test run listen: Linux's name of a socket without a file, its zero byte as @."""
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
    """This process's line to the server of a command."""
    if _ADDRESS not in os.environ:
        serve_this_run()
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(os.environ[_ADDRESS].replace("@", "\0"))
    line.send(module.encode())
    atexit.register(line.close)
    return line


def serve_this_run() -> None:
    """Start servers for this process and those that it starts, which find them by a variable."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0fedap-tests-{uuid.uuid4().hex}")
    listener.listen()
    os.environ[_ADDRESS] = listener.getsockname().decode().replace("\0", "@")
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.prefork", str(listener.fileno()), str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        pass_fds=(listener.fileno(), theirs.fileno()),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    listener.close()
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)


def _hand_over(listener: socket.socket, life: socket.socket) -> tuple[str, socket.socket] | None:
    """Send every caller to the server of the command that it names. Returns in a new server, with its command and the
    line on which its callers come, and with None when `life` has ended."""
    servers: dict[str, socket.socket] = {}
    while life not in (ready := select.select([listener, life], [], [])[0]):
        for asked in ready:
            caller, _ = asked.accept()
            module = caller.recv(_REQUEST_BYTES).decode()
            if module not in servers:
                servers[module], theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if os.fork() == 0:
                    for line in (listener, life, caller, *servers.values()):
                        line.close()
                    return module, theirs
                theirs.close()
            socket.send_fds(servers[module], [b"a caller"], [caller.fileno()])
            caller.close()
    for line in servers.values():
        line.close()
    for _ in servers:
        os.wait()
    return None


class _Server:
    """Forks what its callers ask for, and passes on the exit codes."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._callers: dict[int, socket.socket] = {}
        self._running: dict[int, tuple[int, int, int]] = {}
        """Its pidfd -> its id, where its exit code goes, and who asked."""

    def serve(self) -> str | None:
        """Returns in a child, with the name of the function to run, and with None when the test run is gone."""
        while True:
            ready, _, _ = select.select([self._line.fileno(), *self._callers, *self._running], [], [])
            for one in ready:
                if one in self._running:
                    self._reap(one)
                elif one in self._callers:
                    if function := self._obey(one):
                        return function
                else:
                    _, handles, _, _ = socket.recv_fds(self._line, 100, 1)
                    if not handles:
                        return None
                    self._callers[handles[0]] = socket.socket(fileno=handles[0])

    def _reap(self, ended: int) -> None:
        pid, exit_code, _ = self._running.pop(ended)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(BrokenPipeError):  # who asked is gone
            os.write(exit_code, str(code).encode())
        os.close(exit_code)
        os.close(ended)

    def _obey(self, number: int) -> str | None:
        """Fork for a caller, or end what it has left behind; the name of a function in the child alone."""
        caller = self._callers[number]
        text, handles, _, _ = socket.recv_fds(caller, _REQUEST_BYTES, 3)
        if not text:
            for pid in (pid for pid, _, asked in self._running.values() if asked == number):
                os.kill(pid, signal.SIGKILL)
            del self._callers[number]
            caller.close()
            return None
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for line in (self._line, *self._callers.values()):
                line.close()
            for handle, (_, exit_code, _) in self._running.items():
                os.close(handle)
                os.close(exit_code)
            request = json.loads(text)
            _become(request, handles, parent)
            return str(request["function"])
        exit_code, *others = handles
        for handle in others:
            os.close(handle)
        self._running[os.pidfd_open(pid)] = (pid, exit_code, number)
        with suppress(BrokenPipeError):
            caller.send(str(pid).encode())
        return None


def _become(request: dict[str, Any], handles: Sequence[int], parent: int) -> None:
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    if request["leads"]:
        os.setsid()
    exit_code, stdout, stderr = handles
    os.close(exit_code)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for handle, number in ((nothing, 0), (stdout, 1), (stderr, 2)):
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


def _serve_command(name: str, line: socket.socket) -> None:
    """Load a command and fork it until the test run is gone; in a child, run it."""
    command = importlib.import_module(name)
    for other in (*_LOADED_LATER, *_LOADED_BY_COMMAND.get(name, ())):
        importlib.import_module(other)
    gc.freeze()  # a collection in a child would copy every page that it shares
    if function := _Server(line).serve():
        _run(getattr(command, function))
    os._exit(0)


if __name__ == "__main__":
    if new := _hand_over(*(socket.socket(fileno=int(number)) for number in sys.argv[1:])):
        _serve_command(*new)
