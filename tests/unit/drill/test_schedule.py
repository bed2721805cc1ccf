"""Claims about plans of faults: they follow from the seed alone, stay within the run, and differ between seeds."""

from __future__ import annotations

from collections import Counter

import pytest

from fedap_core.errors import InvalidInput
from scripts.drill.faults import Break, Die, Fault, Fill, Freeze, Kill, NetworkConditions, Slow, Unplug, to_json
from scripts.drill.namespaces import discipline
from scripts.drill.schedule import DEFAULT_KINDS, DISTURBANCES, FLOODS, KINDS, LAST_MOMENT, LAST_STEP, faults_of
from scripts.drill.spec import (
    MEMBERS,
    PARTIES,
    SIZES,
    Drill,
    DrillOptions,
    parse_encoding,
    parse_kinds,
    parse_mode,
    parse_size,
)

SEEDS = range(40)


def drill_of(kind: str, seed: int) -> Drill:
    return Drill(seed=seed, kind=kind, model_bytes=SIZES["small"], curve=False)


def is_sound(fault: Fault) -> bool:
    """Names somebody who takes part, at a moment and a place that a run has."""
    if isinstance(fault, Kill):
        return fault.party in PARTIES and 0.0 < fault.at <= LAST_MOMENT and fault.pause_s >= 0.0
    if isinstance(fault, Die):
        return fault.party in PARTIES and 1 <= fault.step <= LAST_STEP
    if isinstance(fault, Freeze):
        return fault.party in PARTIES and 0.0 < fault.at < 1.0 and fault.for_s > 0.0
    if isinstance(fault, Fill | Unplug):
        return fault.party in PARTIES and 0.0 < fault.at < 1.0 and fault.for_s > 0.0
    if isinstance(fault, NetworkConditions):
        return fault.party in PARTIES and fault.rate_mbit > 0.0 and 0.0 <= fault.loss_percent < 10.0
    if isinstance(fault, Break):
        return fault.member in MEMBERS and 0.0 <= fault.share < 1.0
    return not isinstance(fault, Slow) or fault.member in MEMBERS


@pytest.mark.parametrize("kind", [*DISTURBANCES, "narrow", *FLOODS])
def test_equal_seeds_give_equal_faults_and_others_give_others(kind: str) -> None:
    plans = [faults_of(drill_of(kind, seed)) for seed in SEEDS]
    assert plans == [faults_of(drill_of(kind, seed)) for seed in SEEDS]
    assert len({str(plan) for plan in plans}) > len(SEEDS) // 2


@pytest.mark.parametrize("kind", [*DISTURBANCES, "narrow", *FLOODS])
def test_every_plan_strikes_somebody_who_takes_part(kind: str) -> None:
    plans = [faults_of(drill_of(kind, seed)) for seed in SEEDS]
    assert all(plans)
    assert [fault for plan in plans for fault in plan if not is_sound(fault)] == []


@pytest.mark.parametrize("party", PARTIES)
def test_deaths_come_early_and_late_in_everybodys_record(party: str) -> None:
    faults = [fault for seed in range(400) for fault in faults_of(drill_of("step", seed)) if isinstance(fault, Die)]
    steps = {fault.step for fault in faults if fault.party == party}
    assert min(steps) == 1
    assert max(steps) > LAST_STEP * 3 // 4


@pytest.mark.parametrize("kind", DEFAULT_KINDS)
def test_a_kind_that_touches_lines_has_a_proxy(kind: str) -> None:
    touched = any(isinstance(fault, Break | Slow) for seed in SEEDS for fault in faults_of(drill_of(kind, seed)))
    assert not touched or KINDS[kind].uses_proxy


def test_four_hundred_seeds_are_half_large_half_curve_and_spread_over_the_kinds() -> None:
    drills = [DrillOptions(kinds=DISTURBANCES).drill(seed) for seed in range(400)]
    assert Counter(one.model_bytes for one in drills) == {SIZES["small"]: 200, SIZES["large"]: 200}
    assert Counter(one.curve for one in drills) == {True: 200, False: 200}
    both = Counter((one.kind, one.model_bytes, one.curve) for one in drills)
    assert len(both) == 4 * len(DISTURBANCES)
    assert max(both.values()) - min(both.values()) <= 1


def test_what_is_asked_for_wins_over_the_seed() -> None:
    asked = DrillOptions(kinds=("cut",), model_bytes=5, curve=True, mode="continuous")
    assert {asked.drill(seed).setting for seed in SEEDS} == {"5-curve-continuous-4"}
    assert {asked.drill(seed).kind for seed in SEEDS} == {"cut"}


def test_runs_that_last_have_as_many_paced_rounds_and_go_through_the_kinds() -> None:
    """Ten minutes of two seconds a round are 300 rounds."""
    drills = [DrillOptions(kinds=FLOODS).lasting(10.0).drill(seed) for seed in range(len(FLOODS))]
    assert [one.kind for one in drills] == list(FLOODS)
    assert {one.setting for one in drills} == {"16384-plain-barrier-300"}
    assert drills[0].replay.endswith("--hostile-minutes 10")


def test_a_replay_command_names_everything_that_decides_the_faults() -> None:
    found = Drill(seed=7, kind="cut", model_bytes=SIZES["large"], curve=True).replay
    assert found == "fedap-lab drill --replay 7 --kind cut --model large --curve --mode barrier"
    coarse = Drill(seed=7, kind="cut", model_bytes=SIZES["small"], curve=False, encoding="coarse").replay
    assert coarse.endswith("--no-curve --mode barrier --encoding coarse")


@pytest.mark.parametrize(("text", "sealed"), [("f33", False), ("coarse", True)])
def test_an_encoding_that_no_run_has_is_refused(text: str, sealed: bool) -> None:
    with pytest.raises(InvalidInput, match="encoding"):
        parse_encoding(text, sealed=sealed)


@pytest.mark.parametrize("text", ["huge", "0", "-5", "1.5", "99999999999"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="model"):
        parse_size(text)


def test_unknown_kinds_and_modes_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="kill"):
        parse_kinds(["kil"], DEFAULT_KINDS, DEFAULT_KINDS)
    with pytest.raises(InvalidInput, match="barrier"):
        parse_mode("barier")
    assert parse_kinds([], DEFAULT_KINDS, ("kill",)) == ("kill",)


def test_a_fault_reads_as_plain_words() -> None:
    assert to_json(Kill(party="a", at=0.5, pause_s=0.0)) == {"fault": "kill", "party": "a", "at": 0.5, "pause_s": 0.0}


@pytest.mark.parametrize("kind", DEFAULT_KINDS)
def test_a_kind_that_needs_disks_or_networks_of_its_own_says_so(kind: str) -> None:
    found = [fault for seed in SEEDS for fault in faults_of(drill_of(kind, seed))]
    assert any(isinstance(fault, Fill) for fault in found) == KINDS[kind].uses_small_disks
    assert any(isinstance(fault, NetworkConditions | Unplug) for fault in found) == KINDS[kind].uses_namespaces
    assert any(isinstance(fault, NetworkConditions) and fault.needs_netem for fault in found) == KINDS[kind].uses_netem


def test_weather_is_told_to_the_kernel_as_it_is_planned() -> None:
    thin = NetworkConditions(party="a", rate_mbit=8.0)
    wild = NetworkConditions(party="a", rate_mbit=8.0, delay_ms=10.0, loss_percent=1.5, reorder_percent=5.0)
    assert discipline(thin)[:3] == ["tbf", "rate", "8mbit"]
    assert discipline(wild) == ["netem", "rate", "8mbit", "delay", "10ms", "5ms", "loss", "1.5%", "reorder", "5%"]
