"""A real coordinator in a thread and test peers around it; and what the run must end with, by `fedap_core` alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coordinator.config import make_config
from coordinator.decisions.actions import Stop
from coordinator.runs import Federation, open_run
from fedap_core.aggregation import mix
from fedap_core.arrays import Float32Array
from fedap_core.strategies import Evidence, make_strategy, mixing_of_phase
from tests.support.peer import ThreadedPeer
from tests.support.tiny_models import TinyModel, drift, moments, wire_moments

WAIT_S = 60.0
"""Longest wait for something that must happen; far above what it takes."""

MEMBERS = ("a", "b", "c")


def fields(folder: Path, initial: Path, *, algorithm: str = "fedap", rounds: int = 3, **more: object) -> dict[str, Any]:
    """Configuration for a quick run on this machine."""
    return {
        "run": "test",
        "folder": str(folder),
        "initial": str(initial),
        "rounds": rounds,
        "algorithm": {"name": algorithm, "robust": "none", "min_similarity": 0.0},  # `expected_rows` mixes plainly
        "members": {"names": MEMBERS, "at_least": 3},
        "pace": {"heartbeat_s": 0.5, "dead_after_s": 5.0, "linger_s": 5.0},
        **more,
    }


def close_federation(federation: Federation) -> None:
    """Let go of everything that `open_run` opened, of a coordinator that does not run."""
    parts = federation.coordinator._parts
    federation.coordinator._compute.close()
    parts.store.close()
    parts.router.close(linger_s=0)
    parts.journal.close()
    parts.release()


class RunningCoordinator:
    """A coordinator at work in a thread of this process."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.federation: Federation = open_run(make_config(settings))
        self.stop: Stop | None = None
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.stop = self.federation.coordinator.run()

    def join(self) -> Stop:
        self._thread.join(WAIT_S)
        if self.stop is None:
            raise AssertionError(f"the coordinator is still waiting: {self.federation.machine.waiting_for(0.0)}")
        return self.stop


def member(
    serving: RunningCoordinator, model: TinyModel, name: str, *, samples: int = 100, layer: str = "bn"
) -> ThreadedPeer:
    """A peer that behaves, not started yet. layer: the one whose inputs it measures."""
    return ThreadedPeer(
        serving.federation.endpoint,
        model.hello(name, samples=samples),
        work=lambda round_no, weights: drift(name, round_no, weights),
        moments=wire_moments(moments(name, layer=layer)),
    )


@contextmanager
def running(peers: Sequence[ThreadedPeer]) -> Iterator[None]:
    """Peers at work; stopped at the end, whatever happens."""
    for peer in peers:
        peer.start()
    try:
        yield
    finally:
        for peer in peers:
            peer.stop()


def expected_rows(
    model: TinyModel,
    algorithm: str,
    *,
    rounds: int,
    names: Sequence[str] = MEMBERS,
    samples: Sequence[int] | None = None,
) -> dict[str, Float32Array]:
    """What every member must hold in the end: the same arithmetic without a network."""
    strategy = make_strategy(algorithm)
    rows = [model.shared(strategy.home).copy() for _ in names]
    evidence = Evidence(counts=tuple(samples or [100] * len(names)), stats=tuple(moments(name) for name in names))
    for round_no in range(rounds):
        rows = [drift(name, round_no, row) for name, row in zip(names, rows, strict=True)]
        phase = strategy.round_plan(round_no, rounds).phase
        mix(mixing_of_phase(strategy, phase, evidence).weights, rows, rows)
    return dict(zip(names, rows, strict=True))


def require_rows(peers: Sequence[ThreadedPeer], expected: Mapping[str, Float32Array]) -> None:
    """Everybody's last weights, bit for bit."""
    for peer in peers:
        assert peer.log.final is not None
        assert peer.log.final.tobytes() == expected[peer.name].tobytes()
