"""Claims about runs under a virtual clock: whatever the mode, they are what the coordinator's machine makes of them.

With everybody equally fast a barrier run is the inline engine's; a journal's order alone brings back the same bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coordinator.decisions import facts
from coordinator.record.journal import facts_in
from scripts.engines.base import EngineOptions
from scripts.engines.continuous import VirtualRun, run_virtual
from scripts.engines.virtual_members import VirtualFederation, open_federation
from scripts.run.clock_settings import AsyncFolder, AsyncSettings, ClockSettings
from tests.support.cohorts import Bits, clients_of, model_bits, run_small, small_run, tensor_bits
from tests.support.players import final_bits, run_reference
from tests.support.retrace import retrace
from tests.support.run_files import coordinator_file
from tests.support.whole_runs import run_to_its_end

EQUAL = {"by_samples": False, "look_s": 5.0}


def settings_of(algorithm: str = "fedap", *, rounds: int = 3, **clock: object) -> AsyncSettings:
    """Three clients, ten virtual seconds an epoch."""
    chosen = ClockSettings.model_validate({**EQUAL, **clock})
    return AsyncSettings(run=small_run(algorithm, rounds=rounds), clock=chosen)


def run_of(root: Path, settings: AsyncSettings) -> tuple[VirtualRun, VirtualFederation, AsyncFolder]:
    """A whole run with its journal."""
    cohort = clients_of(settings.run)
    folder, federation = AsyncFolder(root, settings), open_federation(settings, cohort, EngineOptions(root=root))
    folder.begin_anew({}, {"clients": list(federation.homes)}, keep_models=True)
    run = VirtualRun(settings, federation, folder, EngineOptions(root=root))
    run.run()
    return run, federation, folder


def saved_bits(folder: AsyncFolder) -> Bits:
    return {path.stem: tensor_bits(path) for path in sorted(folder.models(folder.saved_round()).glob("*.safetensors"))}


def home_bits(federation: VirtualFederation) -> Bits:
    return {
        name: {key: tensor.numpy().tobytes() for key, tensor in home.client.state().items()}
        for name, home in federation.homes.items()
    }


def shared_bits(federation: VirtualFederation) -> dict[str, bytes]:
    return {name: home.client.shared.tobytes() for name, home in federation.homes.items()}


def updates_of(run: VirtualRun) -> list[tuple[str, float]]:
    return [(fact.member, at) for fact, at in run.facts if isinstance(fact, facts.UpdateAccepted)]


@pytest.mark.parametrize(
    "algorithm", ["fedap", "f-fedap", "fedavg", "base", "ditto", "fedrep", "fedap-plus", "scaffold"]
)
def test_barrier_run_of_equal_clients_ends_with_the_inline_engines_models(algorithm: str, tmp_path: Path) -> None:
    settings = settings_of(algorithm)
    folder = run_virtual(settings, clients_of(settings.run), EngineOptions(root=tmp_path))
    assert saved_bits(folder) == model_bits(run_small(tmp_path, settings.run))


def test_barrier_rounds_take_as_long_as_their_slowest_member(tmp_path: Path) -> None:
    """Three rounds of 40 s after measuring, a third of an epoch, by that member; looks at 0, 5, ... and the end."""
    run, _, folder = run_of(tmp_path, settings_of(slower={"c2": 4.0}))
    closed = [at for fact, at in run.facts if isinstance(fact, facts.RoundClosed)]
    np.testing.assert_allclose(closed, [40 / 3 + 40 * rounds for rounds in (1, 2, 3)])
    clocks = [record["clock"] for record in folder.rounds()]
    assert clocks[:-1] == [5.0 * number for number in range(27)]
    np.testing.assert_allclose(clocks[-1], 40 / 3 + 120)


def test_deadline_closes_rounds_without_the_slow_and_folds_what_comes_late(tmp_path: Path) -> None:
    """The slow one needs 25 s for what the deadline gives 15: it misses every other round, but is heard late."""
    run, _, _ = run_of(tmp_path, settings_of("fedavg", rounds=4, slower={"c2": 2.5}, quorum=2, deadline_s=15.0))
    missing = [fact.missing for fact, _ in run.facts if isinstance(fact, facts.RoundClosed)]
    assert missing[0] == ("c2",)
    assert [fact.member for fact, _ in run.facts if isinstance(fact, facts.RowPlanned)][:1] == ["c2"]
    assert ("c2", 25.0) in updates_of(run)


def test_without_barriers_the_fast_do_not_wait_for_the_slow(tmp_path: Path) -> None:
    """Three rounds of three members are nine updates. Two fast ones give eight in 40 s; the slow one's comes then."""
    run, _, folder = run_of(tmp_path, settings_of("fedavg", mode="continuous", slower={"c2": 4.0}))
    accepted = [(member, at) for member, at in updates_of(run)]
    assert accepted[:2] == [("c1", 10.0), ("c3", 10.0)]
    assert accepted[-3:] == [("c1", 40.0), ("c2", 40.0), ("c3", 40.0)]
    assert folder.rounds()[-1]["trained"] == [4, 1, 4]


@pytest.mark.parametrize("mode", ["barrier", "continuous"])
def test_lost_updates_are_asked_for_and_are_sent_again(mode: str, tmp_path: Path) -> None:
    """Half of all sendings are lost; nobody trains a round twice for it, and all rounds are had."""
    run, _, folder = run_of(tmp_path, settings_of("fedavg", mode=mode, lost=0.5, heartbeat_s=4.0))
    last = folder.rounds()[-1]
    assert last["updates"] == 9
    assert last["clock"] > 30.0
    rounds = [(fact.member, fact.round_no) for fact, _ in run.facts if isinstance(fact, facts.UpdateAccepted)]
    assert len(set(rounds)) == 9


CONDITIONS = [
    {"mode": "continuous"},
    {"mode": "continuous", "slower": {"c2": 3.3}, "lost": 0.3},
    {"mode": "barrier", "slower": {"c2": 2.5}, "quorum": 2, "deadline_s": 15.0},
]


@pytest.mark.parametrize("clock", CONDITIONS, ids=["equal", "slow and lossy", "past the deadline"])
@pytest.mark.parametrize("algorithm", ["fedap", "f-fedap"])
def test_journal_alone_brings_back_the_weights(algorithm: str, clock: dict[str, object], tmp_path: Path) -> None:
    settings = settings_of(algorithm, rounds=4, **clock)
    run, federation, _ = run_of(tmp_path, settings)
    again = open_federation(settings, clients_of(settings.run), EngineOptions(root=tmp_path))
    retrace(again, run.facts)
    assert shared_bits(again) == shared_bits(federation)
    if "lost" not in clock:  # who trained and was not heard has BN layers of which the journal knows nothing
        assert home_bits(again) == home_bits(federation)


@pytest.mark.parametrize("algorithm", ["fedap", pytest.param("f-fedap", marks=pytest.mark.slow)])
def test_processes_without_barriers_are_retraced_bit_for_bit(algorithm: str, tmp_path: Path) -> None:
    """Real processes report in whatever order they happen to: the journal of their coordinator has it."""
    reference = run_reference(tmp_path / "inline", small_run(algorithm))
    config = coordinator_file(tmp_path, reference, mode="continuous")
    made = run_to_its_end(tmp_path, reference, config)
    settings = AsyncSettings(run=reference.settings, clock=ClockSettings(mode="continuous"))
    federation = open_federation(settings, reference.cohort, EngineOptions(root=tmp_path / "inline"))
    retrace(federation, facts_in(tmp_path / "run"))
    travels = {tensor.name for tensor in federation.spec.shared(settings.run.strategy().home)}
    final = {name: {key: bits[key] for key in travels} for name, bits in final_bits(made).items()}
    assert final == {name: {key: bits[key] for key in travels} for name, bits in home_bits(federation).items()}


def test_equal_settings_give_equal_lines_and_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    settings = settings_of("fedavg", mode="continuous", lost=0.3)
    cohort = clients_of(settings.run)
    first = run_virtual(settings, cohort, EngineOptions(root=tmp_path / "a"))
    second = run_virtual(settings, cohort, EngineOptions(root=tmp_path / "b"))
    assert first.rounds() == second.rounds()
    looks: list[int] = []
    run_virtual(settings, cohort, EngineOptions(root=tmp_path / "a", on_round=lambda number, _: looks.append(number)))
    assert looks == []


def test_horizon_ends_the_looking_not_the_numbers(tmp_path: Path) -> None:
    whole = run_of(tmp_path / "whole", settings_of("fedavg"))[2].rounds()
    part = run_of(tmp_path / "part", settings_of("fedavg", horizon_s=15.0))[2].rounds()
    assert [record["clock"] for record in part] == [0.0, 5.0, 10.0, 15.0]
    assert [record["test"]["accuracy"] for record in part] == [r["test"]["accuracy"] for r in whole[:4]]
    assert part[-1]["ended"] == "watched for 15 s"
