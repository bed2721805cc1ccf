"""The page process of `serve --page`: gets its settings from its parent and exits with it."""

from __future__ import annotations

import sys
from pathlib import Path

from coordinator.page.serving import run_page
from protocol.host.web.serving import serve_page, take_over

if __name__ == "__main__":
    task = take_over(sys.argv[1])
    serve_page(lambda: run_page(Path(str(task.settings["folder"]))), task.address, task.listening)
