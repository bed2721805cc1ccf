"""Starts the processes of drills quickly: a process that has imported everything forks them on request.

It never has threads and makes no tensors, so its children are clean. The player of drills sends it requests over a
socket, one JSON object per line, and may have any number of threads. When its socket closes for any reason, it kills
its children and ends; when it ends, they do.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of linux/prctl.h."""
_CLONE_NEWNET = 0x40000000
"""A network namespace, for setns."""
_SHARED = ("encodings.cp437", "numpy.ctypeslib", "numpy.ma", "numpy.random", "scripts.drill.parties")
"""Imported here once instead of in every child."""

Work = Callable[[Mapping[str, object]], int]


@dataclass(frozen=True, kw_only=True)
class ChildEnded:
    """A child has ended. code: as in `subprocess`, negative for a signal."""

    child: int
    code: int


class ForkServer:
    """The client's end. Use as a context manager, and enter it before this process starts a thread."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self._pending = b""
        self._next = 0
        self.pids: dict[int, int] = {}
        """Process ids of running children, by number."""
        self._ended: list[ChildEnded] = []
        self._process = os.fork()
        if self._process == 0:
            self._ours.close()
            _serve(theirs)
            os._exit(0)
        theirs.close()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._ours.close()
        os.waitpid(self._process, 0)

    def start(self, work: str, settings: Mapping[str, object], *, log: Path, namespace: str | None = None) -> int:
        """Fork a child that does `work` of `parties.WORK`; returns its number once it runs."""
        self._next += 1
        number = self._next
        self._send({"start": number, "work": work, "settings": settings, "log": str(log), "namespace": namespace})
        while number not in self.pids:
            self._receive(None)
        return number

    def signal(self, child: int, which: signal.Signals) -> bool:
        """Send a signal; False if the child has already ended."""
        if child not in self.pids:
            return False
        self._send({"signal": int(which), "child": child})
        return True

    def kill(self, child: int) -> None:
        """Send SIGKILL and wait until the child has ended."""
        while self.signal(child, signal.SIGKILL):
            self._receive(1.0)

    def ended(self, timeout_s: float) -> list[ChildEnded]:
        """Return the children that have ended since the last call; waits up to `timeout_s` for the first."""
        if not self._ended:
            self._receive(timeout_s)
        found, self._ended = self._ended, []
        return found

    def _send(self, request: Mapping[str, object]) -> None:
        self._ours.sendall(json.dumps(request).encode() + b"\n")

    def _receive(self, timeout_s: float | None) -> None:
        if not select.select([self._ours], [], [], timeout_s)[0]:
            return
        received = self._ours.recv(65_536)
        if not received:
            raise RuntimeError("the process that starts the parties has exited")
        *lines, self._pending = (self._pending + received).split(b"\n")
        for line in lines:
            notice = json.loads(line)
            if "pid" in notice:
                self.pids[notice["child"]] = notice["pid"]
            else:
                self.pids.pop(notice["child"], None)
                self._ended.append(ChildEnded(child=notice["child"], code=notice["code"]))


def _serve(line: socket.socket) -> None:
    """Run the fork server until its input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the client ends this process by closing the socket
    _die_with_parent()
    for name in _SHARED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would write to every page that it shares
    children: dict[int, tuple[int, int]] = {}
    pending = b""
    try:
        while True:
            handles = {handle: number for number, (_, handle) in children.items()}
            for ready in select.select([line.fileno(), *handles], [], [])[0]:
                if ready in handles:
                    _reap(line, children, handles[ready])
                    continue
                received = line.recv(65_536)
                if not received:
                    return
                *requests, pending = (pending + received).split(b"\n")
                for request in requests:
                    _obey(line, children, json.loads(request))
    finally:
        for pid, _ in children.values():
            os.kill(pid, signal.SIGKILL)


def _obey(line: socket.socket, children: dict[int, tuple[int, int]], request: dict[str, Any]) -> None:
    if "signal" in request:
        number = request["child"]
        if number in children:
            os.kill(children[number][0], request["signal"])
        return
    pid = os.fork()
    if pid == 0:
        line.close()
        os._exit(_live(request))
    number = request["start"]
    children[number] = (pid, os.pidfd_open(pid))
    line.sendall(json.dumps({"child": number, "pid": pid}).encode() + b"\n")


def _reap(line: socket.socket, children: dict[int, tuple[int, int]], number: int) -> None:
    pid, handle = children.pop(number)
    _, status = os.waitpid(pid, 0)
    os.close(handle)
    line.sendall(json.dumps({"child": number, "code": os.waitstatus_to_exitcode(status)}).encode() + b"\n")


def _live(request: Mapping[str, object]) -> int:
    """Run in the child from start to end; returns its exit code."""
    _die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    handle = os.open(str(request["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    if request["namespace"]:
        _enter(f"/run/netns/{request['namespace']}")
    from scripts.drill.parties import WORK
    from scripts.engines.processes.children import guarded

    settings = request["settings"]
    work: Work = WORK[str(request["work"])]
    code = guarded(lambda: work(settings if isinstance(settings, dict) else {}))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code


def _enter(namespace: str) -> None:
    """Move this process into a network namespace."""
    handle = os.open(namespace, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    os.close(handle)


def _die_with_parent() -> None:
    """Have the kernel send SIGKILL to this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
