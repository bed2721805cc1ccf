"""The live page in a real browser, over a run whose coordinator is killed and started again under it.

A federation of test peers; one of them waits in round 3 until the pages have been looked at. Two pages follow the run:
that of `serve --page`, which ends with its coordinator, and that of `fedap-coordinator page`, which does not.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedap_core.arrays import Float32Array
from protocol.messages import Score
from tests.support.browser import Tab, chromium, needs_browser
from tests.support.federation import MEMBERS, WAIT_S, expected_rows, fields, require_rows, running
from tests.support.peer import ThreadedPeer
from tests.support.processes import ServeProcess, config_file
from tests.support.tiny_models import TinyModel, drift, moments, tiny_model, wire_moments

ROUNDS = 5
LOOKS = {"1400 light": (1400, False), "390 dark": (390, True), "390 light": (390, False), "1400 dark": (1400, True)}

_CUT = """[...document.querySelectorAll("svg.chart text:not([transform])")].filter((text) => {
  const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
  return inner.width && (inner.left < outer.left - 1 || inner.right > outer.right + 1);
}).map((text) => text.textContent)"""
_CHARTS = "[...document.querySelectorAll('#accuracy svg.chart')].filter((one) => one.clientWidth).length"
_HEADLINE = "document.querySelector('#stage .headline').textContent"
_LINE = "document.getElementById('line').dataset.state"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def run_file(folder: Path, model: TinyModel) -> Path:
    chosen = fields(
        folder / "run",
        model.write(folder / "initial.safetensors"),
        rounds=ROUNDS,
        network={"endpoint": f"ipc://{folder}/socket"},
        pace={"heartbeat_s": 0.2, "dead_after_s": 3600.0, "linger_s": 10.0},  # b is silent while it waits at the gate
    )
    return config_file(folder / "run.toml", chosen)


def peers_at(folder: Path, model: TinyModel, gate: threading.Event) -> list[ThreadedPeer]:
    """Members that report scores; b trains round 3 only when the gate is open."""

    def work(name: str, round_no: int, weights: Float32Array) -> Float32Array:
        if (name, round_no) == ("b", 2):
            gate.wait(WAIT_S * 3)
        return drift(name, round_no, weights)

    return [
        ThreadedPeer(
            f"ipc://{folder}/socket",
            model.hello(name),
            work=partial(work, name),
            moments=wire_moments(moments(name)),
            scores=partial(_scores, number),
        )
        for number, name in enumerate(MEMBERS)
    ]


def _scores(number: int, round_no: int) -> tuple[Score, ...]:
    correct = 50 + 5 * round_no + 3 * number
    return (Score(model="delivered", split="test", samples=100, correct=correct, loss=0.5, macro_f1=0.5),)


def children_of(pid: int) -> list[int]:
    found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for listed in found for child in listed]


def look(tab: Tab, width: int, *, dark: bool, picture: Path) -> dict[str, Any]:
    tab.size(width, dark=dark)
    tab.until(f"document.documentElement.clientWidth <= {width}")
    tab.picture(picture)
    return {
        "excess": tab.excess_width(),
        "cut": tab.run(_CUT),
        "ground": tab.run("getComputedStyle(document.body).backgroundColor"),
        "names": tab.run("[...document.querySelectorAll('#members tbody th')].map((one) => one.textContent)"),
        "charts": tab.run(_CHARTS),
    }


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Any]]:
    """Everything that the browser saw, and the peers when the run was over."""
    folder = tmp_path_factory.mktemp("live")
    model, gate, port = tiny_model(), threading.Event(), free_port()
    config = run_file(folder, model)
    serve = ("serve", "--config", str(config), "--page", f"127.0.0.1:{port}")
    first = ServeProcess(*serve, log=folder / "first.log")
    first.ready()
    apart = ServeProcess("page", str(folder / "run"), "--listen", "127.0.0.1:0", log=folder / "page.log")
    peers = peers_at(folder, model, gate)
    found: dict[str, Any] = {"model": model, "looks": {}}
    again: ServeProcess | None = None
    try:
        with running(peers), chromium(folder) as browser:
            own, other = browser.tab(), browser.tab()
            own.open(f"http://127.0.0.1:{port}/")
            other.open(apart.ready())
            own.until(f"{_HEADLINE}.startsWith('Round 3 of 5')")
            for name, (width, dark) in LOOKS.items():
                picture = folder / f"{name.replace(' ', '-')}.png"
                found["looks"][name] = look(own, width, dark=dark, picture=picture)
            found["faults"] = list(own.faults)
            first.kill()
            other.until(f"{_HEADLINE}.startsWith('No coordinator is running')")
            own.until(f"{_LINE} === 'lost'")
            again = ServeProcess(*serve, log=folder / "again.log")
            again.ready()
            other.until(f"{_HEADLINE}.startsWith('Round 3 of 5')")
            own.until(f"{_LINE} === 'live'")
            gate.set()
            other.until(f"{_HEADLINE} === 'The run has ended.'")
            found["scores"] = other.run("document.querySelector('#members').innerText")
            found["other faults"] = list(other.faults)
            found["code"] = again.wait()
            own.until(f"{_LINE} === 'lost'")
            found["own end"] = own.run(_HEADLINE)
            for peer in peers:
                peer.join(WAIT_S)
        yield {**found, "peers": peers}
    finally:
        gate.set()
        for process in (first, apart, again):
            if process is not None:
                process.close()


@needs_browser
def test_scripts_and_policy_complain_about_nothing(seen: Mapping[str, Any]) -> None:
    assert (seen["faults"], seen["other faults"]) == ([], [])


@needs_browser
@pytest.mark.parametrize("name", LOOKS)
def test_everything_fits_at_every_width_in_light_and_dark(seen: Mapping[str, Any], name: str) -> None:
    found = seen["looks"][name]
    assert (found["excess"], found["cut"], found["charts"]) == (0, [], 1)
    assert found["names"] == list(MEMBERS)
    assert found["ground"] == ("rgb(18, 21, 24)" if "dark" in name else "rgb(247, 247, 245)")


@needs_browser
def test_run_that_is_killed_and_resumed_under_its_page_ends_with_the_same_models(seen: Mapping[str, Any]) -> None:
    """The page shows the end, and whoever watched has changed no bit."""
    assert seen["code"] == 0
    require_rows(seen["peers"], expected_rows(seen["model"], "fedap", rounds=ROUNDS))
    assert "75.0" in seen["scores"].replace("\u202f", " ")  # 50 + 5 * 5: of the last model, by its goodbye


@needs_browser
def test_whoever_watches_the_page_of_serve_sees_the_end_of_the_run(seen: Mapping[str, Any]) -> None:
    """The page ends with its coordinator, but not before it has shown what became of the run."""
    assert seen["own end"] == "The run has ended."


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_killing_or_stopping_the_page_changes_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """A page that is stopped keeps what it had open: whatever that is, the run does not wait for it."""
    model, gate = tiny_model(), threading.Event()
    config = run_file(tmp_path, model)
    coordinator = ServeProcess("serve", "--config", str(config), "--page", "127.0.0.1:0", log=tmp_path / "log")
    try:
        coordinator.ready()
        assert coordinator.lines.get(timeout=WAIT_S).startswith("page: http://127.0.0.1:")
        pages = children_of(coordinator.child.pid)
        assert len(pages) == 1
        peers = peers_at(tmp_path, model, gate)
        with running(peers):
            os.kill(pages[0], number)
            gate.set()
            assert coordinator.wait() == 0
            for peer in peers:
                peer.join(WAIT_S)
        require_rows(peers, expected_rows(model, "fedap", rounds=ROUNDS))
    finally:
        gate.set()
        coordinator.close()


def test_the_page_ends_with_its_coordinator(tmp_path: Path) -> None:
    config = run_file(tmp_path, tiny_model())
    coordinator = ServeProcess("serve", "--config", str(config), "--page", "127.0.0.1:0", log=tmp_path / "log")
    coordinator.ready()
    pages = children_of(coordinator.child.pid)
    handles = [os.pidfd_open(page) for page in pages]
    coordinator.kill()
    assert [bool(select.select([handle], [], [], WAIT_S)[0]) for handle in handles] == [True]


@pytest.mark.parametrize(
    ("listen", "said"),
    [("0.0.0.0:0", "--page-token FILE"), ("127.0.0.1", "HOST:PORT"), ("192.0.2.1:8600", "--page-token FILE")],
)
def test_an_address_that_others_could_reach_is_refused_before_the_run_begins(
    tmp_path: Path, listen: str, said: str
) -> None:
    config = run_file(tmp_path, tiny_model())
    coordinator = ServeProcess("serve", "--config", str(config), "--page", listen, log=tmp_path / "log")
    assert coordinator.wait() == 2
    assert said in (tmp_path / "log").read_text()
    assert not (tmp_path / "run" / "journal.sqlite").exists()
