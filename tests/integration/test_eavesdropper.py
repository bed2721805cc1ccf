"""What somebody on the line reads: models where a run has no keys, and nothing of them where it has."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from participant.record.model_file import read_model
from protocol.host.keys import generate_keys, write_key_file
from protocol.keys import KeyPair
from tests.integration.test_sealed_runs import encodings_of, found_in
from tests.support.cohorts import small_run, wait_until
from tests.support.players import Player, players, run_reference
from tests.support.processes import ServeProcess
from tests.support.proxy import Recorder
from tests.support.run_files import coordinator_file, only


def options_of(folder: Path, name: str, keys: dict[str, KeyPair]) -> tuple[str, ...]:
    if not keys:
        return ()
    write_key_file(folder / f"{name}.key", keys[name])
    return "--keys", str(folder / f"{name}.key"), "--coordinator-key", keys["server"].public


@pytest.mark.parametrize("curve", [False, True])
def test_models_are_read_on_the_line_unless_there_are_keys(tmp_path: Path, curve: bool) -> None:
    """Searched for: weights of the model that a member gets at the end, which it keeps as a file."""
    reference = run_reference(tmp_path / "inline", small_run("fedavg", rounds=1))
    keys: dict[str, KeyPair] = {}
    members: dict[str, object] = {}
    network: dict[str, object] = {}
    if curve:
        keys = {name: generate_keys() for name in (*reference.names, "server")}
        write_key_file(tmp_path / "server.key", keys["server"])
        (tmp_path / "members").write_text("".join(f"{name} {keys[name].public}\n" for name in reference.names))
        members = {"names": [], "keys": str(tmp_path / "members"), "at_least": len(reference.names)}
        network = {"secret_key": str(tmp_path / "server.key")}
    config = coordinator_file(tmp_path, reference, members=members, network=network)
    coordinator = ServeProcess("serve", "--config", str(config), log=tmp_path / "coordinator.log")
    try:
        with ExitStack() as stack:
            line = stack.enter_context(Recorder(coordinator.ready()))
            made: dict[str, Player] = {}
            for name in reference.names:
                options = options_of(tmp_path, name, keys)
                made |= stack.enter_context(players(tmp_path, only(reference, [name]), line.endpoint, *options))
            wait_until(lambda: all(one.ended() is not None for one in made.values()), "the run to end")
            assert {one.ended() for one in made.values()} == {0}
            weights = read_model(made["c1"].personal)[1]["conv1.weight"].numpy()
            needles = {"weights": encodings_of(weights.reshape(-1)[:8])}
            assert found_in(needles, iter(line.passed)) == (set() if curve else {"weights"})
    finally:
        coordinator.close()
