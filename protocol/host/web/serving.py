"""Runs a live page, in the calling process or in a separate one that ends with its parent.

A page process can be killed at any moment without effect on its parent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from protocol.host.web.access import Guarded
from protocol.host.web.address import PageAddress, read_token
from protocol.host.web.live import LivePage

_NICENESS = 10
"""Lower priority than the run's own processes."""
_LAST_LOOK_S = 4
"""Time for a page that is being stopped to show the end of the run."""


def serve_page(make: Callable[[], LivePage], address: PageAddress, listening: socket.socket) -> None:
    """Serve the page until SIGINT or SIGTERM."""
    token = read_token(address.token) if address.token is not None else None
    asyncio.run(_serve(make, address, token, listening))


async def _serve(make: Callable[[], LivePage], address: PageAddress, token: str | None, place: socket.socket) -> None:
    page = make()
    pem = None if address.certificate is None else str(address.certificate)
    config = uvicorn.Config(
        Guarded(page.app(), address, token),
        ssl_certfile=pem,
        ssl_keyfile=pem,
        log_level="error",  # uvicorn has a warning for every malformed request: strangers could fill the disk
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_LAST_LOOK_S - 1,
        lifespan="off",
        ws="none",
    )
    # asyncio has an error a second while connections use up all descriptors
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    await _Server(config, page).serve(sockets=[place])


class _Server(uvicorn.Server):
    """A server that ends the streams before it waits for them."""

    def __init__(self, config: uvicorn.Config, page: LivePage) -> None:
        super().__init__(config)
        self._page = page

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._page.close()
        await super().shutdown(sockets)


@dataclass(frozen=True, kw_only=True)
class PageProcess:
    """A page in a separate process."""

    words: str
    """The line that a command prints when the page is up."""
    process: subprocess.Popen[bytes]

    def close(self) -> None:
        """Stop the page and wait briefly, so that browsers are shown the end of the run first."""
        self.process.terminate()
        try:
            self.process.wait(timeout=_LAST_LOOK_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


def start_page_process(module: str, address: PageAddress, settings: Mapping[str, object]) -> PageProcess:
    """Bind the address here, so that a wrong one is refused at once, and pass the socket to `python -m module`."""
    listening = address.bind()
    task = {
        **settings,
        "fd": listening.fileno(),
        "listen": address.listen,
        "token": None if address.token is None else str(address.token),
        "hosts": list(address.hosts),
        "certificate": None if address.certificate is None else str(address.certificate),
    }
    process = subprocess.Popen(  # noqa: S603 - this interpreter, a module of ours
        [sys.executable, "-m", module, json.dumps(task)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[listening.fileno()],
        start_new_session=True,  # Ctrl-C is for the run alone
    )
    words = address.words(listening)
    listening.close()
    return PageProcess(words=words, process=process)


@dataclass(frozen=True, kw_only=True)
class PageTask:
    """What a page process gets from its parent."""

    address: PageAddress
    listening: socket.socket
    settings: Mapping[str, object]


def take_over(text: str) -> PageTask:
    """Called in the page process: read its task. When the parent ends, for whatever reason, so does this process."""
    task = json.loads(text)
    os.nice(_NICENESS)
    threading.Thread(target=_follow_parent, daemon=True).start()
    address = PageAddress(
        listen=task["listen"],
        token=None if task["token"] is None else Path(task["token"]),
        hosts=tuple(task["hosts"]),
        certificate=None if task["certificate"] is None else Path(task["certificate"]),
    )
    return PageTask(address=address, listening=socket.socket(fileno=task["fd"]), settings=task)


def _follow_parent() -> None:
    sys.stdin.read()
    os._exit(0)
