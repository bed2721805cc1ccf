"""Claims about anchors that a federation makes for itself: warm-up over real sockets equals the inline engine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cohorts import Bits, small_run
from tests.support.players import final_bits, run_reference
from tests.support.run_files import coordinator_file
from tests.support.whole_runs import run_to_its_end

WARM = {"kind": "warmup", "rounds": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "start_from"),
    [("fedap", "initial"), ("d-fedap", "initial"), ("fedap", "anchor"), ("fedavg", "anchor")],
)
def test_warm_up_rounds_end_with_the_inline_engines_models(tmp_path: Path, algorithm: str, start_from: str) -> None:
    """Five rounds, of which the first two make the anchor by plain averaging; then all begin at `start_from`.

    Batch norm's counters of batches never travel. A member that starts from the anchor keeps its own, where the inline
    engine has those of the anchor's file; no value depends on them.
    """
    settings = small_run(algorithm, rounds=5, anchor=WARM, start_from=start_from)
    reference = run_reference(tmp_path / "inline", settings)
    run = coordinator_file(tmp_path, reference)
    made = run_to_its_end(tmp_path, reference, run, "--allow", "warmup_rounds<=2")
    assert travelled(final_bits(made)) == travelled(reference.bits)
    assert start_from == "anchor" or final_bits(made) == reference.bits


def travelled(bits: Bits) -> Bits:
    """All tensors but the counters."""
    return {
        client: {name: value for name, value in tensors.items() if not name.endswith("num_batches_tracked")}
        for client, tensors in bits.items()
    }
