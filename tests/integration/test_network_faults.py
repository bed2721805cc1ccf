"""Claims about broken networks: whatever happens to the connections, the run ends by itself and with the same bits.

Real processes on both sides and a proxy between them. The quorum is everyone, so that a member which is away for a
moment is waited for; then no fault may change a bit of anybody's model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.cohorts import MODELS, small_run, wait_until
from tests.support.players import Player, Reference, final_bits, players, run_reference
from tests.support.processes import ServeProcess
from tests.support.proxy import Cut, Fault, Hold, Overtake, Proxy, Swallow
from tests.support.run_files import coordinator_file, participant_file

DEADLINE_S = 300.0


@pytest.fixture(scope="module", params=MODELS)
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return run_reference(tmp_path_factory.mktemp("inline"), small_run("fedap", model=MODELS[request.param]))


def model_bytes(reference: Reference) -> int:
    return reference.initial.stat().st_size


def found_silence(player: Player) -> bool:
    return any(line.get("event") == "line.lost" and line.get("reason") == "silence" for line in player.lines())


def require_same_models(folder: Path, reference: Reference, faults: Sequence[Fault]) -> Proxy:
    """Run the federation through the faults; all of them must have struck."""
    run = coordinator_file(folder, reference, pace={"quorum": len(reference.names)})
    coordinator = ServeProcess("serve", "--config", str(run), log=folder / "coordinator.log")
    patience = ("--config", str(participant_file(folder)))
    try:
        with (
            Proxy(coordinator.ready(), faults) as proxy,
            players(folder, reference, proxy.endpoint, *patience) as made,
        ):
            if any(isinstance(fault, Hold) for fault in faults):
                silent = "everyone to find the line silent"
                wait_until(lambda: all(found_silence(one) for one in made.values()), silent, deadline_s=DEADLINE_S)
                proxy.release()
            ended = "the run to end"
            wait_until(lambda: all(one.ended() is not None for one in made.values()), ended, deadline_s=DEADLINE_S)
            assert {name: one.ended() for name, one in made.items()} == dict.fromkeys(made, 0)
        assert coordinator.wait() == 0
    finally:
        coordinator.close()
    assert proxy.injected.is_set()
    assert final_bits(made) == reference.bits
    return proxy


def test_connections_cut_again_and_again_change_no_bit(reference: Reference, tmp_path: Path) -> None:
    """Three participants receive and send about 27 models between them (welcome, anchor, three rounds each way, end).

    The first cut, after seven bytes, lies inside a greeting; the second inside the welcomes; the others, up to 19
    models on, inside orders and updates.
    """
    size = model_bytes(reference)
    models = (3.3, 4.6, 9.8, 4.1)
    cuts = [Cut(after=7), *(Cut(after=int(share * size)) for share in models)]
    proxy = require_same_models(tmp_path, reference, cuts)
    assert proxy.accepted >= len(reference.names) + len(cuts)


@pytest.mark.slow
def test_half_open_connections_are_noticed_and_replaced(reference: Reference, tmp_path: Path) -> None:
    """The lines go half open in the middle of the run, and so does the first line on which somebody comes back."""
    swallow = Swallow(after=int(7.5 * model_bytes(reference)), newcomers=1)
    proxy = require_same_models(tmp_path, reference, [swallow])
    assert proxy.accepted >= 2 * len(reference.names) + 1


@pytest.mark.slow
def test_what_arrives_after_its_line_was_given_up_changes_no_bit(reference: Reference, tmp_path: Path) -> None:
    """Bytes are held until all have replaced their lines; then those of the old lines and the new come together."""
    require_same_models(tmp_path, reference, [Hold(after=int(5.5 * model_bytes(reference)))])


@pytest.mark.slow
def test_what_the_next_connection_overtakes_changes_no_bit(reference: Reference, tmp_path: Path) -> None:
    """Hellos, reports and slices of old connections are heard behind those of the connections that replaced them: in
    the first round, and again in the last."""
    size = model_bytes(reference)
    late = [Overtake(after=int(share * size), hold_s=1.0, for_s=2.0) for share in (3.5, 12.5)]
    proxy = require_same_models(tmp_path, reference, late)
    assert proxy.accepted >= 3 * len(reference.names)
