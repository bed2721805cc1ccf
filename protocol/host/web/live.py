"""A page that updates itself: its parts are rendered on the server, and those that changed are pushed.

A part is a block of the page's template; the browser replaces the old one (server-sent events). However many browsers
show the page, its source is read at most once a second, and not at all if there are none.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from fedap_core.errors import InvalidInput
from protocol.host.web import wording
from protocol.host.web.colours import series_style

EVERY_S = 1.0
"""Seconds between two reads of the source."""
_IDLE_CHECKS = 15
"""Reads without changes after which a keep-alive is sent: proxies cut silent connections."""
MOST_STREAMS = 64
_STYLES = 48
"""Number of series with a separate colour."""

Context = Mapping[str, Any]


class LivePage:
    """package: has the template. parts: its blocks, each shown in the element with that id. read: returns what the page
    shows now, as (values of the template, the same for JSON); runs in a separate thread."""

    def __init__(
        self,
        *,
        package: str,
        template: str,
        parts: Sequence[str],
        read: Callable[[], tuple[Context, object]],
        routes: Sequence[BaseRoute] = (),
    ) -> None:
        environment = Environment(
            loader=ChoiceLoader([PackageLoader(package), PackageLoader("protocol.host.web")]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= wording.FILTERS
        self._template = environment.get_template(template)
        self._style = environment.get_template("style.css").render(
            styles={number: series_style(number) for number in range(_STYLES)}
        )
        self._script = environment.get_template("live.js").render()
        self._parts = tuple(parts)
        self._read_state = read
        self._routes = tuple(routes)
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self._context: Context = {}
        self._json: object = {}
        self._board: dict[str, str] = {}
        self._streams = 0
        self._closing = asyncio.Event()

    def app(self) -> Starlette:
        """Return the application, without access rules."""
        return Starlette(
            routes=[
                Route("/", self._whole),
                Route("/events", self._events),
                Route("/state.json", self._state),
                Route("/style.css", self._styles),
                Route("/live.js", self._scripts),
                *self._routes,
            ]
        )

    def close(self) -> None:
        """End all streams; call this from the server's thread."""
        self._closing.set()

    async def _latest(self, *, anew: bool = False) -> dict[str, str]:
        """Return the page's parts, at most EVERY_S old. Errors are shown in the part `problem`."""
        async with self._reading:
            if not anew and time.monotonic() < self._read_at + EVERY_S:
                return self._board
            try:
                self._board = await run_in_threadpool(self._drawn)
            except (InvalidInput, OSError) as error:
                self._board = {**self._board, "problem": f"<p class='note'>{escape(str(error))}</p>"}
            self._read_at = time.monotonic()
            return self._board

    def _drawn(self) -> dict[str, str]:
        self._context, self._json = self._read_state()
        return {"problem": "", **{part: self._block(part) for part in self._parts}}

    def _block(self, part: str) -> str:
        return "".join(self._template.blocks[part](self._template.new_context(dict(self._context))))

    async def _whole(self, _request: Request) -> Response:
        board = await self._latest()
        if not self._context:
            return HTMLResponse(board["problem"], 503)
        return HTMLResponse(await run_in_threadpool(self._template.render, {**self._context, "problem": ""}))

    async def _state(self, _request: Request) -> Response:
        await self._latest()
        return JSONResponse(self._json)

    async def _styles(self, _request: Request) -> Response:
        return Response(self._style, media_type="text/css")

    async def _scripts(self, _request: Request) -> Response:
        return Response(self._script, media_type="text/javascript")

    async def _events(self, _request: Request) -> Response:
        if self._streams >= MOST_STREAMS:
            return PlainTextResponse(f"{MOST_STREAMS} browsers already have this page open\n", 503)
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        """Send all parts once, then those that change. Ends when the browser disconnects or, after a last update, when
        the server stops: the browser then shows the end of the run."""
        self._streams += 1
        seen: dict[str, str] = {}
        idle = 0
        try:
            is_last = False
            while not is_last:
                is_last = self._closing.is_set()
                board = await self._latest(anew=is_last)
                news = {part: text for part, text in board.items() if seen.get(part) != text}
                idle = 0 if news else idle + 1
                if news:
                    seen = dict(board)
                    yield f"event: parts\ndata: {json.dumps(news)}\n\n"
                elif idle % _IDLE_CHECKS == 0:
                    yield ": still here\n\n"
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), EVERY_S)
        finally:
            self._streams -= 1
