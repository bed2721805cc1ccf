"""A coordinator's machine among sketched participants, over a network that loses, repeats and delays what it likes.

A sketch keeps to the protocol (hello until welcomed, have and want, one report held until it is known to be there) and
has no model. Messages under way lie in one list, from which a test picks: deliver this, lose that, deliver it twice.
Time is a number; nothing here waits. `calm` makes the network behave, after which a run must end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.decisions import events
from coordinator.decisions.actions import Action, Aggregate, Inspect, Persist, Send, SendOrder, SendWelcome, Stop, Weigh
from coordinator.decisions.events import Event
from coordinator.decisions.facts import Fact
from coordinator.decisions.machine import RoundMachine
from coordinator.decisions.rules import Rules
from protocol.delivery import Outbox
from protocol.messages import ORDERS, REPORTS, Error, Heartbeat, HelloRequired, Reject, Step
from tests.support.machines import RUN, SAMPLES, hello, strategy_weights

Down = SendWelcome | SendOrder | Send


@dataclass
class SimulatedParticipant:
    """One participant. `have` and `report` survive a restart with state; `job` does not."""

    name: str
    connection: str = ""
    serial: int = 0
    alive: bool = False
    member: bool = False
    closed: bool = False
    have: Step | None = None
    job: Step | None = None
    next_job: Step | None = None
    measure: str = "none"
    report: Step | None = None
    outbox: Outbox = field(default_factory=Outbox)

    def connect(self, *, keep_state: bool) -> Event:
        """A process starts, or finds a new connection: hello."""
        self.serial += 1
        self.connection = f"{self.name}#{self.serial}"
        self.alive, self.member, self.closed = True, False, False
        known = self.have is not None and keep_state
        if not keep_state:
            self.have = self.report = None
            self.outbox = Outbox()
        else:  # an order that was not finished must be given again
            self.have = _order_of(self.report) if self.report is not None else None
        self.job = self.next_job = None
        return events.HelloArrived(
            connection=self.connection, identity=self.name, hello=hello(self.name, run=RUN if known else None)
        )

    def greet_again(self) -> Event:
        run = RUN if self.have is not None else None
        return events.HelloArrived(connection=self.connection, identity=self.name, hello=hello(self.name, run=run))

    def receive(self, action: Down) -> list[Event]:
        """What the participant answers at once."""
        if not self.alive or action.connection != self.connection:
            return []
        if isinstance(action, SendWelcome):
            self.member = True
        elif isinstance(action, SendOrder) and self.member:
            self._take(action.order.step, str(action.order.measure))
        elif isinstance(action, Send):
            return self._hear_message(action.message)
        return []

    def _hear_message(self, message: object) -> list[Event]:
        if isinstance(message, HelloRequired):
            self.member = False
            return [self.greet_again()]
        if isinstance(message, Reject):
            self.member, self.closed = False, True
        elif isinstance(message, Heartbeat) and self.member:
            again = self.outbox.received(message)
            return [self._send(again)] if again is not None else []
        elif not isinstance(message, Error | Heartbeat):
            raise TypeError(f"unexpected {message}")
        return []

    def _take(self, step: Step, measure: str) -> None:
        if self.have is not None and step.place <= self.have.place:
            return
        self.have = step
        if self.job is None or step.kind == "finish":
            self.job, self.measure, self.next_job = step, measure, None
        else:
            self.next_job = step

    def work(self) -> list[Event]:
        """Finish what is being done."""
        if not self.alive or self.job is None:
            return []
        self.report = Step(kind=REPORTS[ORDERS.index(self.job.kind)], round_no=self.job.round_no)
        self.outbox.hold(self.report)
        self.job, self.next_job = self.next_job, None
        return [self._send(self.report)]

    def _send(self, step: Step) -> Event:
        if step.kind == "stats":
            return events.StatsArrived(connection=self.connection, round_no=step.round_no, samples=SAMPLES)
        if step.kind == "goodbye":
            return events.GoodbyeArrived(connection=self.connection, round_no=step.round_no, scores=())
        return events.UpdateArrived(
            connection=self.connection, round_no=step.round_no, steps=1, train_loss=None, scores=(),
            measured=self.measure == "running",
        )  # fmt: skip

    def beat(self) -> list[Event]:
        if not self.alive or self.closed:
            return []
        if not self.member:
            return [self.greet_again()]
        want = None
        if self.job is None:
            following = 0 if self.have is None else self.have.round_no + (self.have.kind == "train")
            want = Step(kind="train", round_no=following)
        beat = Heartbeat(run=RUN, round_no=0, have=self.have, want=want)
        return [events.Beat(connection=self.connection, beat=beat)]


def _order_of(report: Step) -> Step:
    return Step(kind=ORDERS[REPORTS.index(report.kind)], round_no=report.round_no)


class SimulatedFederation:
    """The machine, its journal, its work under way, the sketches, and everything between them."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.now = 0.0
        self.journal: list[tuple[Fact, float]] = []
        self.machine = RoundMachine(rules)
        self.work: list[Inspect | Weigh | Aggregate] = []
        self.up: list[Event] = []
        self.down: list[Down] = []
        self.sketches: dict[str, SimulatedParticipant] = {}
        self.stopped = False
        self.bad: set[str] = set()
        """Members whose every report is refused."""
        self.hand(events.Started())

    def hand(self, event: Event) -> None:
        """One event reaches the coordinator."""
        self._perform(self.machine.handle(event, self.now))
        self.machine.check_invariants()

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Persist):
                self.journal.append((action.fact, self.now))
            elif isinstance(action, Inspect | Weigh | Aggregate):
                self.work.append(action)
            elif isinstance(action, SendWelcome | SendOrder | Send):
                self.down.append(action)
            elif isinstance(action, Stop):
                self.stopped = True

    def finish_work(self, index: int) -> None:
        action = self.work.pop(index)
        if isinstance(action, Inspect):
            code = "not-finite" if action.member in self.bad else None
            self.hand(
                events.Inspected(
                    member=action.member, kind=action.kind, round_no=action.round_no, code=code, reason="", distance=1.0
                )
            )
        elif isinstance(action, Weigh):
            weights = strategy_weights(self.rules.strategy, action.members, action.samples)
            self.hand(events.WeighingDone(ticket=action.ticket, weights=tuple(map(tuple, weights.tolist()))))
        else:
            self.hand(events.MixingDone(ticket=action.ticket))

    def deliver_down(self, index: int, *, keep: bool = False) -> None:
        action = self.down[index] if keep else self.down.pop(index)
        for sketch in self.sketches.values():
            self.up += sketch.receive(action)

    def deliver_up(self, index: int, *, keep: bool = False) -> None:
        self.hand(self.up[index] if keep else self.up.pop(index))

    def crash(self) -> None:
        """Everything that was not journalled is gone, what was under way included."""
        before = self.machine.digest()
        self.machine = RoundMachine(self.rules)
        for fact, time in self.journal:
            self.machine.replay(fact, time)
        if self.machine.digest() != before:
            raise AssertionError("replay led to another state")
        self.work, self.down, self.up = [], [], []
        self.hand(events.Started())

    def advance(self, seconds: float) -> None:
        """Time passes: ticks at their deadlines, a heartbeat of everybody alive at the end."""
        until = self.now + seconds
        while (due := self.machine.next_deadline()) is not None and due <= until:
            self.now = due
            self.hand(events.Tick())
        self.now = until
        for sketch in self.sketches.values():
            self.up += sketch.beat()

    def calm(self, steps: int) -> bool:
        """A network that behaves and participants that work: whether the run ends within so many heartbeats."""
        for _ in range(steps):
            if self.machine.state.ended:
                return True
            self.advance(self.rules.pace.heartbeat_s)
            for _ in range(6):
                for sketch in self.sketches.values():
                    self.up += sketch.work()
                while self.up or self.down or self.work:
                    if self.work:
                        self.finish_work(0)
                    elif self.up:
                        self.deliver_up(0)
                    else:
                        self.deliver_down(0)
        return self.machine.state.ended
