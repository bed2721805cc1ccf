"""A page behind a real socket, and a visitor without a browser: what it asks, and what it is answered."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from protocol.host.web.address import PageAddress
from tests.support.federation import WAIT_S


@dataclass(frozen=True, kw_only=True)
class Answer:
    """headers: by lower-case name."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:  # noqa: ANN401 - whatever the page says
        return json.loads(self.text)


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Asks one page."""

    port: int

    def ask(self, path: str = "/", way: str = "GET", **headers: str) -> Answer:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            line.request(way, path, headers=headers)
            answer = line.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(status=answer.status, headers=found, text=answer.read().decode())
        finally:
            line.close()


@contextmanager
def served(make: Callable[[], ASGIApp]) -> Iterator[Visitor]:
    """An application at a free port of this machine until the end of the block; made on the server's own thread."""
    listening = PageAddress(listen="127.0.0.1:0").bind()
    servers: list[uvicorn.Server] = []

    async def serve() -> None:
        servers.append(uvicorn.Server(uvicorn.Config(make(), log_level="error", lifespan="off", ws="none")))
        await servers[0].serve(sockets=[listening])

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        yield Visitor(port=listening.getsockname()[1])
    finally:
        if servers:
            servers[0].should_exit = True
        thread.join(WAIT_S)
        listening.close()
