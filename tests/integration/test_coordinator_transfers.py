"""Claims about payloads larger than a message: they come whole, in both directions, and survive a cut."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from coordinator.record.disk import ReusableFiles
from coordinator.record.incoming import Incoming
from fedap_core.arrays import Float32Array
from protocol.limits import SLICE_BYTES
from protocol.naming import content_name
from tests.support.federation import (
    MEMBERS,
    WAIT_S,
    RunningCoordinator,
    expected_rows,
    fields,
    member,
    require_rows,
    running,
)
from tests.support.peer import ThreadedPeer
from tests.support.tiny_models import drift, tiny_model

BODY = SLICE_BYTES // 4 + 1000
"""Values that make a slice and a bit."""


def test_large_models_end_with_the_bits_of_the_arithmetic(tmp_path: Path) -> None:
    model = tiny_model(body=BODY)
    coordinator = RunningCoordinator(
        fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedap", rounds=2)
    )
    peers = [member(coordinator, model, name) for name in MEMBERS]
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    require_rows(peers, expected_rows(model, "fedap", rounds=2))
    assert coordinator.federation.exchange.counts["withheld"] == 0


def test_a_member_that_dies_and_comes_back_ends_with_the_same_bits(tmp_path: Path) -> None:
    """b dies in round 1 before it reports; its successor is told round 1 again, with the same weights."""
    model = tiny_model(body=BODY)
    coordinator = RunningCoordinator(
        fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg", rounds=2)
    )
    reached, dead = threading.Event(), threading.Event()

    def work(round_no: int, weights: Float32Array) -> Float32Array:
        if round_no == 1 and not dead.is_set():
            reached.set()
            dead.wait(WAIT_S)
        return drift("b", round_no, weights)

    first = ThreadedPeer(coordinator.federation.endpoint, model.hello("b"), work=work)
    second = member(coordinator, model, "b")
    others = [member(coordinator, model, name) for name in ("a", "c")]
    with running([first, *others]):
        assert reached.wait(WAIT_S)
        first._stopping.set()
        second.start()
        dead.set()
        assert all(peer.ended.wait(WAIT_S) for peer in (second, *others))
        assert not coordinator.join().aborted
        second.stop()
    require_rows((second, *others), expected_rows(model, "fedavg", rounds=2))


@pytest.mark.parametrize("spoilt", [False, True])
def test_slices_of_an_earlier_process_are_used_and_where_the_disk_spoilt_them_fetched_again(
    tmp_path: Path, spoilt: bool
) -> None:
    """The first slice of a's first update lies in the folder, with or without a wrong byte. Either way the run ends
    with the right bits, and nobody is blamed."""
    model = tiny_model(body=BODY)
    update = drift("a", 0, model.shared(())).tobytes()
    begun = tmp_path / "run" / "incoming"
    begun.mkdir(parents=True)
    earlier, name = Incoming(begun, ReusableFiles(tmp_path / "spare")), content_name(update)
    assert list(earlier.held("a", name, len(update))) == []
    earlier.take("a", name, 0, bytes(SLICE_BYTES) if spoilt else update[:SLICE_BYTES])
    earlier.settle()
    coordinator = RunningCoordinator(
        fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg", rounds=2)
    )
    peers = [member(coordinator, model, name) for name in MEMBERS]
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    require_rows(peers, expected_rows(model, "fedavg", rounds=2))
    counts = coordinator.federation.exchange.counts
    assert (counts["spoilt"], counts["bad-checksum"]) == (int(spoilt), 0)
