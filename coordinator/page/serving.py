"""Builds the page of a run: follows its folder, renders it, answers `/metrics`; `protocol.host.web` serves it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from coordinator.page.metrics import RunMetrics
from coordinator.page.view import PARTS, context_of
from coordinator.watching.following import RunFollower
from coordinator.watching.overview import RunOverview
from fedap_core.errors import InvalidInput
from protocol.host.web.live import EVERY_S, Context, LivePage


class CachedOverview:
    """One follower shared by the page and the metrics; thread-safe. The page refreshes at its own pace; metrics reuse
    an overview of the last half second."""

    def __init__(self, folder: Path) -> None:
        self._follower = RunFollower(folder)
        self._lock = threading.Lock()
        self._overview: RunOverview | None = None
        self._read_at = 0.0

    def __call__(self) -> RunOverview:
        with self._lock:
            if self._overview is None or time.monotonic() >= self._read_at + EVERY_S / 2:
                return self._refreshed()
            return self._overview

    def anew(self) -> RunOverview:
        """Return a fresh overview."""
        with self._lock:
            return self._refreshed()

    def _refreshed(self) -> RunOverview:
        self._overview = self._follower.refresh()
        self._read_at = time.monotonic()
        return self._overview


def run_page(folder: Path) -> LivePage:
    """Build the page of the run in this folder."""
    cached = CachedOverview(folder)
    metrics = RunMetrics(cached)

    def shown() -> tuple[Context, object]:
        overview = cached.anew()
        return context_of(overview), overview.as_json()

    async def scrape(_request: Request) -> Response:
        try:
            return Response(await run_in_threadpool(metrics.text), media_type=CONTENT_TYPE_LATEST)
        except (InvalidInput, OSError) as error:
            return PlainTextResponse(f"{error}\n", 503)

    return LivePage(
        package="coordinator.page",
        template="run.html.j2",
        parts=PARTS,
        read=shown,
        routes=[Route("/metrics", scrape)],
    )
