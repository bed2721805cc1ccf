"""A page that changes while it is looked at: its parts are made on the server, and those that changed are pushed.

A part is a block of the page's template; the browser puts it in the place of the old one (server-sent events). However
many look at the page, its source is asked once a second at most, and not at all when nobody looks.
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
"""Between two looks at the source."""
_QUIET_LOOKS = 15
"""Looks without news after which a sign of life is sent: proxies cut what is silent."""
MOST_STREAMS = 64
_STYLES = 48
"""Series that have a colour of their own."""

Context = Mapping[str, Any]


class LivePage:
    """package: where the template lies. parts: its blocks, each shown in the element of that id. look: what the page
    shows now, as (values of the template, the same as JSON); run in a thread of its own."""

    def __init__(
        self,
        *,
        package: str,
        template: str,
        parts: Sequence[str],
        look: Callable[[], tuple[Context, object]],
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
        self._look = look
        self._routes = tuple(routes)
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")
        self._context: Context = {}
        self._json: object = {}
        self._board: dict[str, str] = {}
        self._streams = 0
        self._closing = asyncio.Event()

    def app(self) -> Starlette:
        """The application, without its guard."""
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
        """End all streams; from the server's own thread."""
        self._closing.set()

    async def _latest(self, *, anew: bool = False) -> dict[str, str]:
        """The page's parts, at most EVERY_S old. What goes wrong is said in the part `problem`."""
        async with self._looking:
            if not anew and time.monotonic() < self._looked_at + EVERY_S:
                return self._board
            try:
                self._board = await run_in_threadpool(self._drawn)
            except (InvalidInput, OSError) as error:
                self._board = {**self._board, "problem": f"<p class='note'>{escape(str(error))}</p>"}
            self._looked_at = time.monotonic()
            return self._board

    def _drawn(self) -> dict[str, str]:
        self._context, self._json = self._look()
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
            return PlainTextResponse(f"{MOST_STREAMS} browsers look at this page already\n", 503)
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        """Everything once, then what changes. Ends when the browser goes away or, after a last look, the server stops:
        whoever watched a run to its end sees the end."""
        self._streams += 1
        seen: dict[str, str] = {}
        quiet = 0
        try:
            is_last = False
            while not is_last:
                is_last = self._closing.is_set()
                board = await self._latest(anew=is_last)
                news = {part: text for part, text in board.items() if seen.get(part) != text}
                quiet = 0 if news else quiet + 1
                if news:
                    seen = dict(board)
                    yield f"event: parts\ndata: {json.dumps(news)}\n\n"
                elif quiet % _QUIET_LOOKS == 0:
                    yield ": still here\n\n"
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), EVERY_S)
        finally:
            self._streams -= 1
