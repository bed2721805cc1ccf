"""Claims about stragglers, absentees, leavers and late joiners, each with barriers between rounds and without,
in clear and sealed.

Real processes on both sides. A straggler is a process that is stopped and later goes on; an absentee never comes, or is
killed; a leaver is asked to end. Nothing is timed: what was waited for stands in the run's journal.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coordinator.decisions import facts
from coordinator.record.journal import JOURNAL
from participant.sealing.group_key import GroupKey, make_group_key
from tests.support.cohorts import BOTH_SIZES, MODELS, small_run, wait_until
from tests.support.players import Player, Reference, players, run_reference
from tests.support.processes import ServeProcess
from tests.support.proxy import Hold, Proxy
from tests.support.run_files import coordinator_file, has_finite_model, only, participant_file, told_facts
from tests.support.sealing import KEY_FILE, sealed_options, sealing_section

pytestmark = pytest.mark.slow
MODES = ("barrier", "continuous")
ROUNDS = 30
DEADLINE_S = 300.0
PATIENT = {"dead_after_s": 120.0, "quorum": 2, "linger_s": 5.0}


@pytest.fixture(scope="module", params=BOTH_SIZES)
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Three clients; many short rounds, so that whatever happens in one of the first is well before the end."""
    settings = small_run("fedap", rounds=ROUNDS, model=MODELS[request.param])
    return run_reference(tmp_path_factory.mktemp("inline"), settings)


@pytest.fixture(params=["clear", "sealed"])
def key(request: pytest.FixtureRequest, tmp_path: Path) -> GroupKey | None:
    """The common key of a sealed run's members; None: the run is not sealed."""
    return make_group_key(tmp_path / KEY_FILE) if request.param == "sealed" else None


def config_of(folder: Path, reference: Reference, key: GroupKey | None, **others: Any) -> Path:  # noqa: ANN401 - sections
    """A run.toml of either kind."""
    if key is not None:
        others |= {"sealed": True, "sealing": sealing_section(key)}
    return coordinator_file(folder, reference, **others)


def options_of(folder: Path, reference: Reference, key: GroupKey | None, **patience: float) -> tuple[str, ...]:
    config = ("--config", str(participant_file(folder, **patience)))
    return config if key is None else (*config, *sealed_options(folder, reference))


@dataclass
class RunningFederation:
    """A coordinator at work, and everybody who takes part."""

    folder: Path
    coordinator: ServeProcess
    made: dict[str, Player]

    def told(self) -> list[facts.Fact]:
        run = self.folder / "run"
        return told_facts(run) if (run / JOURNAL).exists() else []

    def wait_for(self, happened: Callable[[list[facts.Fact]], bool], what: str) -> None:
        wait_until(lambda: happened(self.told()), what, deadline_s=DEADLINE_S)

    def counts(self) -> Mapping[str, int]:
        """Admitted updates by member."""
        given = [fact.member for fact in self.told() if isinstance(fact, facts.UpdateAccepted)]
        return {name: given.count(name) for name in sorted(set(given))}

    def given(self, *names: str) -> int:
        return sum(self.counts().get(name, 0) for name in names)

    def require_good_end(self, *names: str) -> None:
        chosen = {name: self.made[name] for name in names}
        wait_until(lambda: all(one.ended() is not None for one in chosen.values()), "the end", deadline_s=DEADLINE_S)
        assert {name: one.ended() for name, one in chosen.items()} == dict.fromkeys(names, 0)
        wait_until(lambda: self.coordinator.child.poll() is not None, "the coordinator's end", deadline_s=DEADLINE_S)
        assert self.coordinator.wait() == 0
        assert all(has_finite_model(one.personal) for one in chosen.values())
        assert [fact.reason for fact in self.told() if isinstance(fact, facts.Finished)] == ["rounds"]


@contextmanager
def running_federation(
    folder: Path,
    reference: Reference,
    mode: str,
    key: GroupKey | None,
    *,
    pace: Mapping[str, object] | None = None,
    members: Mapping[str, object] | None = None,
) -> Iterator[RunningFederation]:
    """A run with all of the reference's clients."""
    run = config_of(folder, reference, key, mode=mode, pace={**PATIENT, **(pace or {})}, members=members)
    coordinator = ServeProcess("serve", "--config", str(run), log=folder / "coordinator.log")
    options = options_of(folder, reference, key, answer_s=30.0, silence_beats=100.0)
    try:
        with players(folder, reference, coordinator.ready(), *options) as made:
            yield RunningFederation(folder=folder, coordinator=coordinator, made=made)
    finally:
        coordinator.close()


def has_sent_order(member: str) -> Callable[[list[facts.Fact]], bool]:
    return lambda told: any(isinstance(fact, facts.UpdateAccepted) and fact.member == member for fact in told)


def test_straggler_is_left_out_of_a_round_and_heard_afterwards(
    reference: Reference, tmp_path: Path, key: GroupKey | None
) -> None:
    """It is stopped in the middle of the run. The first round that closes without it is still owed its update: that
    comes once it goes on, is admitted, and it reports in time for a later round."""
    *_, slow = reference.names
    with running_federation(tmp_path, reference, "barrier", key, pace={"deadline_s": 4.0}) as run:
        run.wait_for(has_sent_order(slow), "its first update")
        run.made[slow].kill(signal.SIGSTOP)
        run.wait_for(lambda told: bool(missed(told, slow)), "a round without it")
        run.made[slow].kill(signal.SIGCONT)
        run.require_good_end(*reference.names)
    told = run.told()
    first = missed(told, slow)[0]
    places = [
        index
        for index, fact in enumerate(told)
        if isinstance(fact, facts.UpdateAccepted) and (fact.member, fact.round_no) == (slow, first.round_no)
    ]
    assert len(places) == 1
    assert places[0] > told.index(first)
    later = [f for f in told if isinstance(f, facts.RoundClosed) and f.round_no > first.round_no and slow in f.reported]
    assert later


def missed(told: list[facts.Fact], member: str) -> list[facts.RoundClosed]:
    return [fact for fact in told if isinstance(fact, facts.RoundClosed) and member in fact.missing]


def test_without_barriers_nobody_waits_for_a_straggler(
    reference: Reference, tmp_path: Path, key: GroupKey | None
) -> None:
    """While it is stopped the others give six updates; it goes on, and the sum of all rounds ends the run."""
    *others, slow = reference.names
    with running_federation(tmp_path, reference, "continuous", key) as run:
        run.wait_for(has_sent_order(slow), "its first update")
        run.made[slow].kill(signal.SIGSTOP)
        wanted = run.given(*others) + 6
        wait_until(lambda: run.given(*others) >= wanted, "six more updates", deadline_s=DEADLINE_S)
        run.made[slow].kill(signal.SIGCONT)
        run.require_good_end(*reference.names)
    counts = run.counts()
    assert sum(counts.values()) == ROUNDS * len(reference.names)
    assert counts[slow] >= 2


@pytest.mark.parametrize("mode", MODES)
def test_who_is_listed_and_never_comes_is_not_waited_for(
    mode: str, reference: Reference, tmp_path: Path, key: GroupKey | None
) -> None:
    members = {"names": [*reference.names, "nobody"], "at_least": len(reference.names), "enrolment_s": 0.0}
    with running_federation(tmp_path, reference, mode, key, members=members) as run:
        run.require_good_end(*reference.names)
    assert set(run.counts()) == set(reference.names)


@pytest.mark.parametrize("mode", MODES)
def test_others_end_without_a_member_that_was_killed(
    mode: str, reference: Reference, tmp_path: Path, key: GroupKey | None
) -> None:
    """Without barriers the sum of all rounds is still the same: the others give what the dead one owes."""
    *living, dead = reference.names
    with running_federation(tmp_path, reference, mode, key, pace={"dead_after_s": 4.0}) as run:
        run.wait_for(has_sent_order(dead), "its first update")
        run.made[dead].kill()
        run.require_good_end(*living)
    told = run.told()
    assert [fact.absent for fact in told if isinstance(fact, facts.Ended)] == [(dead,)]
    assert not run.made[dead].personal.exists()
    if mode == "continuous":
        assert sum(run.counts().values()) == ROUNDS * len(reference.names)


@pytest.mark.parametrize("mode", MODES)
def test_leaver_is_released_and_the_others_continue(
    mode: str, reference: Reference, tmp_path: Path, key: GroupKey | None
) -> None:
    """Without barriers the sum that ends the run is that of those who stayed, however many the leaver gave."""
    *staying, leaver = reference.names
    with running_federation(tmp_path, reference, mode, key) as run:
        run.wait_for(has_sent_order(leaver), "its first update")
        run.made[leaver].kill(signal.SIGTERM)
        run.require_good_end(*staying)
        wait_until(lambda: run.made[leaver].ended() is not None, "the leaver's end", deadline_s=DEADLINE_S)
        assert run.made[leaver].ended() == 128 + signal.SIGTERM
    told = run.told()
    left = [index for index, fact in enumerate(told) if isinstance(fact, facts.Left)]
    assert len(left) == 1
    assert leaver not in {fact.member for fact in told[left[0] :] if isinstance(fact, facts.UpdateAccepted)}
    if mode == "barrier":
        assert all(run.counts()[name] == ROUNDS for name in staying)
    else:
        assert sum(run.counts().values()) == ROUNDS * len(staying)


@pytest.mark.parametrize("mode", MODES)
def test_who_comes_late_gets_a_model_and_takes_part(
    mode: str, reference: Reference, tmp_path: Path, key: GroupKey | None
) -> None:
    """Its first word is held back until the two others have given four updates, with many still to come."""
    *early, late = reference.names
    members = {"at_least": 2, "enrolment_s": 0.0, "late_join": True}
    config = config_of(tmp_path, reference, key, mode=mode, pace=PATIENT, members=members)
    coordinator = ServeProcess("serve", "--config", str(config), log=tmp_path / "coordinator.log")
    patience = options_of(tmp_path, reference, key, answer_s=60.0)
    try:
        endpoint = coordinator.ready()
        with ExitStack() as stack:
            proxy = stack.enter_context(Proxy(endpoint, [Hold(after=0)]))
            made = stack.enter_context(players(tmp_path, only(reference, [late]), proxy.endpoint, *patience))
            wait_until(proxy.injected.is_set, "the late one to knock", deadline_s=DEADLINE_S)
            made |= stack.enter_context(players(tmp_path, only(reference, early), endpoint, *patience))
            run = RunningFederation(folder=tmp_path, coordinator=coordinator, made=made)
            wait_until(lambda: run.given(*early) >= 4, "four updates", deadline_s=DEADLINE_S)
            proxy.release()
            run.require_good_end(*reference.names)
    finally:
        coordinator.close()
    joined = [fact.member for fact in run.told() if isinstance(fact, facts.Joined)]
    assert (sorted(joined[:2]), joined[2:]) == (early, [late])
    assert 1 <= run.counts()[late] <= ROUNDS - 1
