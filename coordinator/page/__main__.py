"""The page's process of `serve --page`: told by its parent what to show and where, and ends with it."""

from __future__ import annotations

import sys
from pathlib import Path

from coordinator.page.serving import run_page
from protocol.host.web.serving import serve_page, take_over

if __name__ == "__main__":
    task = take_over(sys.argv[1])
    serve_page(lambda: run_page(Path(str(task.settings["folder"]))), task.address, task.listening)
