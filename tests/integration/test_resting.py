"""While many reports are awaited, a coordinator leaves messages in its socket for a moment: none is left there for
long, and the result is that of the same arithmetic without a network. Real sockets."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from coordinator.decisions import facts
from coordinator.record.journal import facts_in
from coordinator.server import FEWEST_TO_REST
from fedap_core.arrays import Float32Array
from tests.support.cohorts import wait_until
from tests.support.federation import WAIT_S, RunningCoordinator, expected_rows, fields, member, require_rows, running
from tests.support.tiny_models import drift, tiny_model

EARLY = ("a", "b", "c")
LATE = ("d", "e", "f", "g")
NAMES = (*EARLY, *LATE)


def test_reports_are_accepted_although_enough_others_are_awaited_to_rest(tmp_path: Path) -> None:
    assert len(LATE) >= FEWEST_TO_REST
    model = tiny_model()
    settings = fields(
        tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedap", rounds=2,
        members={"names": list(NAMES), "at_least": len(NAMES)}, network={"endpoint": "tcp://127.0.0.1:*"},
    )  # fmt: skip
    coordinator = RunningCoordinator(settings)
    may_report = threading.Event()

    def late(name: str, round_no: int, weights: Float32Array) -> Float32Array:
        assert may_report.wait(WAIT_S)
        return drift(name, round_no, weights)

    peers = [member(coordinator, model, name) for name in NAMES]
    for peer in peers[len(EARLY) :]:
        peer.work = partial(late, peer.name)

    def accepted() -> set[str]:
        return {fact.member for fact, _ in facts_in(tmp_path / "run") if isinstance(fact, facts.UpdateAccepted)}

    with running(peers):
        wait_until(lambda: accepted() == set(EARLY), "the early reports to be accepted", deadline_s=WAIT_S)
        may_report.set()
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    require_rows(peers, expected_rows(model, "fedap", rounds=2, names=NAMES))
