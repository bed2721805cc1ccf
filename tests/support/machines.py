"""A coordinator's machine on a bench: events go in, its journal is a list, its work is done by arithmetic or held back.

Knows no socket and no tensor. Statistics are made up from a member's name, so that W is the strategy's own. After every
event the invariants are checked; `crash` feeds the journal into a new machine, which must come out equal.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from coordinator.decisions import events
from coordinator.decisions.actions import (
    Action,
    Aggregate,
    Inspect,
    Order,
    Persist,
    Send,
    SendOrder,
    SendWelcome,
    Weigh,
)
from coordinator.decisions.events import Event
from coordinator.decisions.facts import Fact
from coordinator.decisions.machine import RoundMachine
from coordinator.decisions.rules import MemberRules, ModelRules, PaceRules, Rules
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.strategies import Evidence, Strategy, make_strategy
from protocol.messages import Heartbeat, Hello, Score, Step

RUN = "run-1"
MODEL = ModelRules(model_layout="aa" * 16, classes="bb" * 16, input_shape=(1, 8, 8), preprocessing="cc" * 16)
SAMPLES = 100

A = TypeVar("A", bound=Action)
F = TypeVar("F", bound=Fact)


def open_members(at_least: int, **changes: object) -> MemberRules:
    """Anybody may come; the first round starts with the `at_least`-th."""
    return MemberRules(**{"at_least": at_least, "enrolment_s": 0.0, **changes})  # type: ignore[arg-type]


def pace(**changes: object) -> PaceRules:
    return PaceRules(**{"heartbeat_s": 1.0, "dead_after_s": 5.0, **changes})  # type: ignore[arg-type]


def rules_for(
    algorithm: str = "fedbn",
    *,
    members: MemberRules | None = None,
    paced: PaceRules | None = None,
    rounds: int = 2,
    options: dict[str, object] | None = None,
    continuous: bool = False,
    warmup_rounds: int = 0,
) -> Rules:
    """Rules of a small run."""
    return Rules(
        run=RUN,
        strategy=make_strategy(algorithm, options),
        rounds=rounds,
        continuous=continuous,
        warmup_rounds=warmup_rounds,
        model=MODEL,
        members=members or open_members(3),
        pace=paced or pace(),
    )


def instance_of(name: str, life: str = "") -> str:
    """The token of one installation: the same for a name unless a test names another life."""
    return hashlib.blake2b(f"{name}/{life}".encode(), digest_size=16).hexdigest()


def hello(
    name: str,
    *,
    run: str | None = None,
    train_samples: int = SAMPLES,
    model: ModelRules = MODEL,
    life: str = "",
    process: str | None = None,
) -> Hello:
    return Hello(
        name=name,
        instance=instance_of(name, life),
        process=process,
        software="test 1",
        run=run,
        model_layout=model.model_layout,
        classes=model.classes,
        input_shape=model.input_shape,
        preprocessing=model.preprocessing,
        train_samples=train_samples,
        test_samples=10,
    )


def stats_of(name: str) -> BnStats:
    """Made up from the name alone: different names, different moments."""
    place = sum((index + 1) * ord(letter) for index, letter in enumerate(name))
    mean = np.asarray([place % 17, place % 5], dtype=np.float64)
    layer = LayerMoments(name="bn", count=50, mean=mean, variance=np.asarray([1.0, 1.0 + place % 3]))
    return BnStats(samples=SAMPLES, layers=(layer,))


def strategy_weights(strategy: Strategy, names: Sequence[str], samples: Sequence[int]) -> np.ndarray:
    """What the strategy says to these members' made-up statistics."""
    stats = tuple(stats_of(name) for name in names)
    return np.asarray(strategy.mixing(Evidence(counts=tuple(samples), stats=stats)).weights)


def validation(correct: int) -> tuple[Score, ...]:
    """A delivered model that was right `correct` times out of 100 on validation samples."""
    return (Score(model="delivered", split="validation", samples=100, correct=correct, loss=0.5, macro_f1=0.5),)


@dataclass
class PeerRecord:
    """What the bench remembers of a participant's side."""

    connection: str
    order: Order | None = None


class Bench:
    """Drives one machine. `auto`: work is done at once; otherwise it waits in `work` for `finish_work`."""

    def __init__(self, rules: Rules, *, auto: bool = True) -> None:
        self.rules = rules
        self.auto = auto
        self.now = 0.0
        self.journal: list[tuple[Fact, float]] = []
        self.work: list[Action] = []
        self.peers: dict[str, PeerRecord] = {}
        self.bad: dict[tuple[str, str, int], str] = {}
        self.distances: dict[tuple[str, int], float] = {}
        self.directions: dict[tuple[str, int], str] = {}
        self.machine = RoundMachine(rules)
        self._lives = 0
        self.do(events.Started())

    # ---- events

    def do(self, event: Event, at: float | None = None) -> list[Action]:
        """Hand over one event, journal what is asked for, and do the work that follows."""
        self.now = max(self.now, at if at is not None else self.now)
        actions = self.machine.handle(event, self.now)
        self.machine.check_invariants()
        for action in list(actions):
            if isinstance(action, Persist):
                self.journal.append((action.fact, self.now))
            elif isinstance(action, Inspect | Weigh | Aggregate):
                self.work.append(action)
            elif isinstance(action, SendOrder):
                self.peers[action.member].order = action.order
        while self.auto and self.work:
            actions += self.finish_work()
        return actions

    def finish_work(self, index: int = 0) -> list[Action]:
        """Do one piece of work that was asked for, and report its end."""
        action = self.work.pop(index)
        if isinstance(action, Inspect):
            code = self.bad.get((action.member, action.kind, action.round_no))
            distance = self.distances.get((action.member, action.round_no), 1.0) if action.kind == "update" else None
            if code is None and distance is not None and action.limit is not None and distance > action.limit:
                code = "too-far"
            return self.do(
                events.Inspected(
                    member=action.member, kind=action.kind, round_no=action.round_no, code=code,
                    reason="as the test says", distance=distance,
                    direction=self.directions.get((action.member, action.round_no), ""),
                )
            )  # fmt: skip
        if isinstance(action, Weigh):
            weights = strategy_weights(self.rules.strategy, action.members, action.samples)
            rows = tuple(tuple(float(one) for one in row) for row in weights)
            return self.do(events.WeighingDone(ticket=action.ticket, weights=rows))
        assert isinstance(action, Aggregate)
        return self.do(events.MixingDone(ticket=action.ticket))

    def tick(self, at: float) -> list[Action]:
        return self.do(events.Tick(), at)

    def run_until(self, at: float) -> list[Action]:
        """Let time pass as a shell does: from deadline to deadline."""
        actions: list[Action] = []
        while (due := self.machine.next_deadline()) is not None and due <= at:
            actions += self.tick(due)
        return [*actions, *self.tick(at)]

    def join(self, *names: str, run: str | None = None, train_samples: int = SAMPLES) -> list[Action]:
        actions: list[Action] = []
        for name in names:
            actions += self.greet(name, hello(name, run=run, train_samples=train_samples))
        return actions

    def greet(self, name: str, message: Hello, *, identity: str | None = None) -> list[Action]:
        """Send hello over a new connection."""
        self._lives += 1
        self.peers[name] = PeerRecord(connection=f"{name}#{self._lives}")
        return self.do(
            events.HelloArrived(connection=self.peers[name].connection, identity=identity or name, hello=message)
        )

    def update(self, name: str, round_no: int, *, scores: tuple[Score, ...] = ()) -> list[Action]:
        """The update of a member arrives; with statistics if its order asked for them."""
        order = self.peers[name].order
        measured = order is not None and order.round_no == round_no and order.measure == "running"
        return self.do(
            events.UpdateArrived(
                connection=self.peers[name].connection, round_no=round_no, steps=4, train_loss=0.7, scores=scores,
                measured=measured,
            )
        )  # fmt: skip

    def updates(self, round_no: int, *names: str) -> list[Action]:
        return [action for name in names for action in self.update(name, round_no)]

    def stats(self, name: str, round_no: int) -> list[Action]:
        connection = self.peers[name].connection
        return self.do(events.StatsArrived(connection=connection, round_no=round_no, samples=SAMPLES))

    def goodbye(self, name: str) -> list[Action]:
        order = self.peers[name].order
        assert order is not None
        connection = self.peers[name].connection
        return self.do(events.GoodbyeArrived(connection=connection, round_no=order.round_no, scores=()))

    def beat(self, name: str, *, have: Step | None = None, want: Step | None = None) -> list[Action]:
        beat = Heartbeat(run=RUN, round_no=0, have=have, want=want)
        return self.do(events.Beat(connection=self.peers[name].connection, beat=beat))

    def keep_alive(self, *names: str, at: float) -> list[Action]:
        """Everybody named gives a sign of life at that time."""
        actions = []
        for name in names:
            actions += self.do(events.SignOfLife(connection=self.peers[name].connection), at)
        return actions

    def crash(self) -> list[Action]:
        """End the process and start another one over the same journal."""
        before = self.machine.digest()
        self.machine = RoundMachine(self.rules)
        for fact, time in self.journal:
            self.machine.replay(fact, time)
        assert self.machine.digest() == before, "replay led elsewhere"
        self.work.clear()
        return self.do(events.Started())

    # ---- what came out

    @property
    def stage(self) -> str:
        return str(self.machine.state.stage)

    def facts(self, kind: type[F]) -> list[F]:
        return [fact for fact, _ in self.journal if isinstance(fact, kind)]


def find(actions: Sequence[Action], kind: type[A]) -> list[A]:
    """The actions of one kind, in order."""
    return [action for action in actions if isinstance(action, kind)]


def orders(actions: Sequence[Action]) -> dict[str, Order]:
    """The orders said, by member; the last one counts."""
    return {action.member: action.order for action in find(actions, SendOrder)}


def messages(actions: Sequence[Action], kind: str) -> list[Send]:
    return [action for action in find(actions, Send) if kind == action.message.KIND]


def welcomes(actions: Sequence[Action]) -> list[SendWelcome]:
    return find(actions, SendWelcome)


NEVER = math.inf
