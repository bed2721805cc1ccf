"""Claims about whole runs of a real coordinator with raw peers over real sockets: same bits as the arithmetic alone."""

from __future__ import annotations

from pathlib import Path

import pytest

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
from tests.support.tiny_models import tiny_model


@pytest.mark.parametrize("algorithm", ["fedavg", "fedap", "d-fedap", "f-fedap", "fedper", "base"])
def test_a_run_ends_with_the_bits_of_the_arithmetic(tmp_path: Path, algorithm: str) -> None:
    model = tiny_model()
    coordinator = RunningCoordinator(
        fields(tmp_path / "run", model.write(tmp_path / "initial.safetensors"), algorithm=algorithm)
    )
    measured = "head" if algorithm == "d-fedap" else "bn"
    peers = [member(coordinator, model, name, layer=measured) for name in MEMBERS]
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    require_rows(peers, expected_rows(model, algorithm, rounds=3))
    for peer in peers:
        assert (peer.log.finish_reason, peer.log.errors) == ("rounds", [])
    assert coordinator.federation.exchange.counts["withheld"] == 0
