"""Random interleavings of everything a network and its people do: no invariant breaks, and every run ends once the
network behaves. A crash at any moment is replay from the journal, and leads to the same state."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from coordinator.decisions import events
from coordinator.decisions.rules import Rules
from tests.support.machines import open_members, pace, rules_for
from tests.support.sketches import SimulatedFederation, SimulatedParticipant

NAMES = ("a", "b", "c", "d")
PATIENCE = 400
"""Heartbeats of calm within which every run must have ended: rounds, deadlines, the time to give up, and to spare."""


PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking: a failing run of forty steps is read more quickly than it is made smaller."""


def chaotic_rules(algorithm: str, *, continuous: bool = False, warmup_rounds: int = 0, patient: bool = False) -> Rules:
    """patient: nothing ever closes or ends by time alone, so that only answers can bring the run to its end."""
    limits = {"deadline_s": math.inf} if patient else {"deadline_s": 12.0, "give_up_s": 40.0}
    return rules_for(
        algorithm,
        rounds=4,
        continuous=continuous,
        warmup_rounds=warmup_rounds,
        members=open_members(2, enrolment_s=3.0),
        paced=pace(quorum=2, linger_s=10.0, dead_after_s=5.0, **limits),
    )


class Chaos(RuleBasedStateMachine):
    """The rules are the faults; `index` picks among what is under way."""

    run_rules = chaotic_rules("fedap")

    @initialize()
    def begin(self) -> None:
        self.federation = SimulatedFederation(self.run_rules)
        for name in NAMES[:3]:
            self._sketch(name)

    def _sketch(self, name: str, *, keep_state: bool = True) -> None:
        sketch = self.federation.sketches.setdefault(name, SimulatedParticipant(name=name))
        self.federation.up.append(sketch.connect(keep_state=keep_state))

    @precondition(lambda self: self.federation.up)
    @rule(index=st.integers(0, 99), twice=st.booleans())
    def hear_participant(self, index: int, twice: bool) -> None:
        self.federation.deliver_up(index % len(self.federation.up), keep=twice)

    @precondition(lambda self: self.federation.down)
    @rule(index=st.integers(0, 99), twice=st.booleans())
    def hear_coordinator(self, index: int, twice: bool) -> None:
        self.federation.deliver_down(index % len(self.federation.down), keep=twice)

    @rule(up=st.booleans(), index=st.integers(0, 99))
    def lose(self, up: bool, index: int) -> None:
        under_way: list[Any] = self.federation.up if up else self.federation.down
        if under_way:
            under_way.pop(index % len(under_way))

    @precondition(lambda self: self.federation.work)
    @rule(index=st.integers(0, 99))
    def finish_work(self, index: int) -> None:
        self.federation.finish_work(index % len(self.federation.work))

    @rule(name=st.sampled_from(NAMES))
    def participant_works(self, name: str) -> None:
        if name in self.federation.sketches:
            self.federation.up += self.federation.sketches[name].work()

    @rule(seconds=st.sampled_from([0.1, 1.0, 1.0, 3.0, 6.0, 13.0]))
    def time_passes(self, seconds: float) -> None:
        self.federation.advance(seconds)

    @rule()
    def all_is_delivered(self) -> None:
        """Without calm spells no run would get anywhere."""
        self.federation.calm(1)

    @rule()
    def coordinator_crashes(self) -> None:
        self.federation.crash()

    @rule(name=st.sampled_from(NAMES), keep_state=st.booleans())
    def participant_starts(self, name: str, keep_state: bool) -> None:
        self._sketch(name, keep_state=keep_state)

    @rule(name=st.sampled_from(NAMES))
    def participant_dies(self, name: str) -> None:
        if name in self.federation.sketches:
            self.federation.sketches[name].alive = False

    @rule(name=st.sampled_from(NAMES))
    def participant_leaves(self, name: str) -> None:
        sketch = self.federation.sketches.get(name)
        if sketch is not None and sketch.member:
            sketch.member, sketch.closed = False, True
            self.federation.up.append(events.LeaveArrived(connection=sketch.connection, reason="lunch"))

    @rule(name=st.sampled_from(NAMES), bad=st.booleans())
    def participant_turns_bad(self, name: str, bad: bool) -> None:
        (self.federation.bad.add if bad else self.federation.bad.discard)(name)

    @rule(low=st.booleans())
    def disk_changes(self, low: bool) -> None:
        event = events.StorageLow(free_bytes=1, needed_bytes=2) if low else events.StorageFree(free_bytes=3)
        self.federation.hand(event)

    @rule(name=st.sampled_from(NAMES))
    def connection_breaks(self, name: str) -> None:
        if name in self.federation.sketches:
            self.federation.hand(events.PeerLost(connection=self.federation.sketches[name].connection))

    @precondition(lambda self: self.federation.now > 20.0)
    @rule()
    def operator_asks_for_the_end(self) -> None:
        self.federation.hand(events.StopRequested())

    def teardown(self) -> None:
        if not hasattr(self, "federation"):
            return
        self.federation.hand(events.StorageFree(free_bytes=3))
        for name in NAMES if self.run_rules.pace.deadline_s == math.inf else ():
            self.federation.bad.discard(name)
            self._sketch(name)  # without deadlines a run ends only if people come back
        ended = self.federation.calm(PATIENCE)
        state = self.federation.machine.state
        assert ended, f"{state.stage} for ever: {self.federation.machine.waiting_for(self.federation.now).reason}"
        self.federation.crash()


@pytest.mark.parametrize(
    ("algorithm", "continuous", "warmup_rounds", "patient"),
    [("fedap", False, 0, False), ("fedap", False, 0, True), ("fedbn", False, 0, False), ("f-fedap", False, 0, False),
     ("f-fedap", False, 0, True), ("fedap", False, 1, False), ("fedap", False, 1, True), ("fedap", True, 0, False),
     ("f-fedap", True, 0, True), ("fedavg", True, 0, False), ("fedap", True, 1, True)],
)  # fmt: skip
def test_no_interleaving_breaks_an_invariant_or_keeps_a_run_from_ending(
    algorithm: str, continuous: bool, warmup_rounds: int, patient: bool
) -> None:
    rules = chaotic_rules(algorithm, continuous=continuous, warmup_rounds=warmup_rounds, patient=patient)
    check_under_chaos(rules)


def check_under_chaos(rules: Rules) -> None:
    """Let Hypothesis choose what happens; `Chaos` asserts after every event and at the end."""
    run_state_machine_as_test(
        type("ChaosOfOneKind", (Chaos,), {"run_rules": rules}),
        settings=settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )
