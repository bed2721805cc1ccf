"""A headless Chromium driven over a pipe (its DevTools protocol): pages of any width, light and dark, their scripts'
complaints, pictures and printed pages. Without Chromium the tests that need it skip."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH")
WAIT_S = 60.0

_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe")


class Tab:
    """One page. faults: what its scripts and its security policy complained about."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.faults: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> Mapping[str, Any]:
        return self._browser.call(method, parameters, self._session)

    def size(self, width: int, *, height: int = 900, dark: bool = False) -> None:
        """How wide the window is, and which colours its user prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:  # noqa: ANN401 - whatever the script returns
        """The value of an expression."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise AssertionError(done["exceptionDetails"])
        return done["result"].get("value")

    def until(self, script: str) -> None:
        """Wait for an expression to become true."""
        deadline = time.monotonic() + WAIT_S
        while not self.run(f"new Promise((done) => setTimeout(() => done(Boolean({script})), 50))"):
            if time.monotonic() > deadline:
                raise AssertionError(f"never true: {script}; the page says {self.run('document.body.innerText')!r}")

    def picture(self, path: Path) -> Path:
        """The whole page as a png."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def excess_width(self) -> int:
        """Pixels by which the page is wider than its window."""
        root = "document.documentElement"
        return int(self.run(f"{root}.scrollWidth - {root}.clientWidth"))


class Browser:
    """One Chromium; `tab` opens a page in it."""

    def __init__(self, folder: Path) -> None:
        self._profile = folder / "profile"
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [str(BROWSER), *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]

        def place() -> None:  # Chromium reads from 3 and writes to 4
            kept = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        self._process = subprocess.Popen(
            command, preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number = 0
        self._buffer = b""
        self._tabs: dict[str, Tab] = {}

    def tab(self) -> Tab:
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        made = self._tabs[session] = Tab(self, session)
        return made

    def call(self, method: str, parameters: Mapping[str, object], session: str | None = None) -> Mapping[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {} if session is None else {"sessionId": session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                found: Mapping[str, Any] = answer["result"]
                return found
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._in, 1 << 16)
            if not more:
                raise AssertionError("Chromium has ended")
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _note(self, event: Mapping[str, Any]) -> None:
        tab = self._tabs.get(event.get("sessionId", ""))
        if tab is None:
            return
        told = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            tab.faults.append(str(told["exceptionDetails"].get("text")))
        elif event["method"] == "Log.entryAdded" and told["entry"]["level"] == "error":
            tab.faults.append(f"{told['entry']['text']} {told['entry'].get('url', '')}".strip())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser until the end of the block."""
    browser = Browser(folder)
    try:
        yield browser
    finally:
        browser.close()
