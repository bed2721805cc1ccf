"""Runs the page of a run in its own process, with a reader that follows it all the time, as a browser would."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from protocol.host.web.address import PageAddress
from protocol.host.web.serving import start_page_process

PATIENCE_S = 120.0


@contextmanager
def page_with_a_reader(folder: Path) -> Iterator[None]:
    """Inside the block, the page has been rendered once and its events are read as they arrive."""
    page = start_page_process("coordinator.page", PageAddress(listen="127.0.0.1:0"), {"folder": str(folder)})
    line = http.client.HTTPConnection(urlsplit(page.words.split()[1]).netloc, timeout=PATIENCE_S)
    try:
        line.request("GET", "/events")
        stream = line.getresponse()
        stream.readline()  # the first event

        def read() -> None:
            with suppress(OSError, ValueError, http.client.HTTPException, AttributeError):  # it ends with its page
                while stream.readline():
                    pass

        threading.Thread(target=read, daemon=True).start()
        yield
    finally:
        page.close()
        line.close()
