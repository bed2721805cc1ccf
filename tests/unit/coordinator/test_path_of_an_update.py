"""An update takes the way that ARCHITECTURE.md shows: a real run is traced between an update and the order that follows
it, and crosses no other module of the coordinator than the document names.

One peer over loopback, small updates and updates in slices. Every thread of the coordinator is traced.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import coordinator
from fedap_core.arrays import Float32Array
from tests.support import peer
from tests.support.federation import WAIT_S, RunningCoordinator, fields, running
from tests.support.tiny_models import drift, moments, tiny_model, wire_moments

PACKAGE = Path(coordinator.__file__).parent
DOCUMENT = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
SECTION = DOCUMENT.partition("## The path of an update\n")[2].partition("\n## ")[0]
PATH = re.findall(r"^\| \d+ \| `([a-z_/]+\.py)` \|", SECTION, flags=re.MULTILINE)
NAMED = set(re.findall(r"`([a-z_/]+\.py)`", SECTION))
"""The modules of the path, and the others that the section names: shared types, and modules that run in every turn."""

TRACED_ROUND = 1


class Trace:
    """The modules of the coordinator in which a function is called while it is `on`."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.on = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if self.on and event == "call" and frame.f_code.co_filename.startswith(f"{PACKAGE}/"):
            self.modules.add(Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix())


@contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    """Threads that are started inside are traced, as long as they last."""
    threading.setprofile(trace)
    try:
        yield
    finally:
        threading.setprofile(None)


def traced(folder: Path, *, body: int) -> set[str]:
    """The modules that an update of `body` values crosses until the next order has come."""
    trace, model = Trace(), tiny_model(body=body)
    settings = fields(folder / "run", model.write(folder / "initial.safetensors"), rounds=TRACED_ROUND + 2)
    settings |= {
        "members": {"at_least": 1, "at_most": 1, "enrolment_s": 0.0},
        "pace": {"heartbeat_s": 60.0, "dead_after_s": 300.0, "linger_s": 5.0},
    }

    def work(round_no: int, weights: Float32Array) -> Float32Array:
        """Called in the peer's thread when an order has come; what it returns is sent."""
        trace.on = round_no == TRACED_ROUND
        return drift("a", round_no, weights)

    with tracing(trace):
        serving = RunningCoordinator(settings)
        member = peer.ThreadedPeer(
            serving.federation.endpoint, model.hello("a"), work=work, moments=wire_moments(moments("a"))
        )
        with running([member]):
            assert member.ended.wait(WAIT_S)
            assert not serving.join().aborted
    return trace.modules


def test_the_way_has_at_most_twenty_modules_and_all_of_them_exist() -> None:
    assert 0 < len(PATH) <= 20
    assert len(set(PATH)) == len(PATH)
    assert [name for name in NAMED if not (PACKAGE / name).is_file()] == []


def test_a_small_update_crosses_the_way_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "REPEAT_S", WAIT_S)  # no heartbeat between the update and its answer
    crossed = traced(tmp_path, body=1_000)
    assert sorted(crossed - NAMED) == []
    assert sorted(set(PATH) - crossed) == []


def test_an_update_in_slices_crosses_the_way_and_nothing_else(tmp_path: Path) -> None:
    crossed = traced(tmp_path, body=1_200_000)
    assert sorted(crossed - NAMED) == []
    assert sorted(set(PATH) - crossed) == []
