"""Runs a whole federation under a virtual clock: the coordinator's own machine, and clients of given speed.

The coordinator's `RoundMachine` makes every decision (whose updates are mixed, with which weights, when a round closes,
what is requested again); this is a shell for it without sockets, in which events happen at virtual times. Equal
settings give equal bits. Reports that arrive at the same time are handled in the order of names.
"""

from __future__ import annotations

import heapq
import math
from collections import deque

import numpy as np

from coordinator.decisions import actions, events
from coordinator.decisions.actions import Order
from coordinator.decisions.facts import Fact
from coordinator.decisions.machine import RoundMachine
from fedap_core.randomness import generator
from fedap_core.strategies import Measure
from participant.record.model_file import write_model
from protocol.messages import Heartbeat, Hello
from protocol.tensors import names_digest
from scripts.engines.base import EngineOptions
from scripts.engines.virtual_members import VirtualFederation, open_federation
from scripts.engines.workbench import Home
from scripts.run.clock_settings import AsyncFolder, AsyncSettings
from scripts.run.cohort import Cohort, model_file_name
from scripts.run.records import ClientScore, RoundRecord
from scripts.run.versions import versions

MEASURE_SHARE = 1 / 3
"""Measuring is one forward pass over the training samples; training also goes backward, about three times the work."""


def run_virtual(settings: AsyncSettings, cohort: Cohort, options: EngineOptions) -> AsyncFolder:
    """Make a run from its beginning, unless it is complete, and return its folder."""
    folder = AsyncFolder(options.root, settings)
    folder.make_once(cohort.described(), lambda: _run(folder, settings, cohort, options))
    return folder


def _run(folder: AsyncFolder, settings: AsyncSettings, cohort: Cohort, options: EngineOptions) -> None:
    described = cohort.described() | {"clock": settings.clock.model_dump(mode="json")}
    folder.begin_anew(versions(), described, keep_models=options.keep_models)
    federation = open_federation(settings, cohort, EngineOptions(root=options.root))
    VirtualRun(settings, federation, folder, options).run()


class VirtualRun:
    """One run: `facts` is its journal, with the virtual time of each."""

    def __init__(
        self, settings: AsyncSettings, federation: VirtualFederation, folder: AsyncFolder, options: EngineOptions
    ) -> None:
        self._clock = settings.clock
        self._seed = settings.run.seed
        self._passes = settings.run.strategy().passes(settings.run.sgd.epochs)
        self._federation = federation
        self._homes, self._bench = federation.homes, federation.bench
        self._folder = folder
        self._options = options
        self._machine = RoundMachine(federation.rules)
        self._now = 0.0
        self._recorded = 0
        self._due: list[tuple[float, str, int, Order]] = []
        """Pending reports: when they are sent, by whom, a number that breaks ties, and the order they answer."""
        self._pushed = 0
        self._losses: dict[tuple[str, int], np.random.Generator] = {}
        self._stopped: actions.Stop | None = None
        self._trained = dict.fromkeys(self._homes, 0)
        self.facts: list[tuple[Fact, float]] = []

    def run(self) -> None:
        """Run from the first hello to the end, or to the horizon."""
        self._handle(events.Started())
        for name, home in self._homes.items():
            self._handle(events.HelloArrived(connection=name, identity=name, hello=self._hello(name, home)))
        horizon = math.inf if self._clock.horizon_s is None else self._clock.horizon_s
        while self._stopped is None:
            reports_at = self._due[0][0] if self._due else math.inf
            ticks_at = self._machine.next_deadline() or math.inf
            records_at = self._recorded * self._clock.look_s
            records_at = records_at if records_at < horizon else math.inf
            self._now = min(reports_at, ticks_at, records_at)
            if self._now > horizon:
                self._now = horizon
                break
            if self._now == reports_at:
                _, member, _, order = heapq.heappop(self._due)
                self._report(member, order)
            elif self._now == ticks_at:
                self._handle(events.Tick())
            else:
                self._record(ended=None)
        self._record(ended=self._stopped.sentence if self._stopped is not None else f"watched for {horizon:g} s")

    def _hello(self, name: str, home: Home) -> Hello:
        model = self._federation.rules.model
        return Hello(
            name=name,
            instance=names_digest((name,)),
            software="lab",
            run=None,
            model_layout=model.model_layout,
            classes=model.classes,
            input_shape=model.input_shape,
            preprocessing=model.preprocessing,
            train_samples=home.train_samples,
            test_samples=0,
        )

    # ---- the machine's actions

    def _handle(self, event: events.Event) -> None:
        pending = deque([event])
        while pending:
            for action in self._machine.handle(pending.popleft(), self._now):
                answer = self._perform(action)
                if answer is not None:
                    pending.append(answer)

    def _perform(self, action: actions.Action) -> events.Event | None:
        match action:
            case actions.Persist(fact=fact):
                self.facts.append((fact, self._now))
            case actions.Inspect():
                return self._bench.inspect(action)
            case actions.Weigh():
                return self._weigh(action)
            case actions.Aggregate():
                return self._bench.mix(action)
            case actions.Collect():
                self._bench.collect(action)
            case actions.SendOrder(member=member, order=order):
                return self._begin(member, order)
            case actions.Send(member=str(member), message=Heartbeat() as beat):
                self._heartbeat_received(member, beat)
            case actions.Stop():
                self._stopped = action
        return None

    def _weigh(self, action: actions.Weigh) -> events.Event:
        done = self._bench.weigh(action)
        if self._bench.mixing is not None:
            members, mixing = self._bench.mixing
            self._folder.write_mixing(mixing, list(members), from_round=0)
        return done

    # ---- the members

    def _begin(self, member: str, order: Order) -> events.Event | None:
        """Give an order to a member: it works for as long as its speed implies, or receives its final model."""
        home = self._homes[member]
        if order.kind == "anchor":
            self._push(self._now + MEASURE_SHARE * self._epoch_s(member), member, order)
            return None
        home.deliver(order.round_no, self._bench.weights(order.weights))
        if order.kind == "finish":
            return events.GoodbyeArrived(connection=member, round_no=order.round_no, scores=())
        self._push(self._now + self._passes * self._epoch_s(member), member, order)
        return None

    def _epoch_s(self, member: str) -> float:
        samples = [home.client.train_samples for home in self._homes.values()]
        share = self._homes[member].client.train_samples / float(np.mean(samples)) if self._clock.by_samples else 1.0
        return self._clock.epoch_s * share * self._clock.slower.get(member, 1.0)

    def _report(self, member: str, order: Order) -> None:
        """Send a member's report when its work is done, or send the held report again."""
        home = self._homes[member]
        if order.kind == "anchor":
            self._measure(home, member, order)
            return
        if home.order != order:
            home.evaluations()
            home.train(order)
            self._trained[member] += 1
        if not self._is_lost(member, order.round_no):
            self._arrive(home, member, order)

    def _measure(self, home: Home, member: str, order: Order) -> None:
        if order.measure is not Measure.NONE:  # otherwise it only starts from the anchor, which it already has
            self._bench.put_statistics(member, order.round_no, home.measure(self._bench.anchor, order.measure))
        samples = home.train_samples
        self._handle(events.StatsArrived(connection=member, round_no=order.round_no, samples=samples))

    def _is_lost(self, member: str, round_no: int) -> bool:
        """Whether this sending is lost; drawn each time from the member's own random numbers for that round."""
        key = member, round_no
        if key not in self._losses:
            self._losses[key] = generator(self._seed, purpose="loss", participant=member, round_no=round_no)
        return float(self._losses[key].random()) < self._clock.lost

    def _arrive(self, home: Home, member: str, order: Order) -> None:
        report = home.report
        if report is None:
            raise RuntimeError(f"{member} has nothing to report in round {order.round_no}")
        self._bench.put_update(member, order.round_no, home.update, report.stats)
        self._handle(
            events.UpdateArrived(
                connection=member,
                round_no=order.round_no,
                steps=report.metrics.steps,
                train_loss=report.metrics.loss,
                scores=(),
                measured=report.stats is not None,
            )
        )

    def _heartbeat_received(self, member: str, beat: Heartbeat) -> None:
        """Handle a heartbeat of the coordinator: a member asked twice for its report sends it again at once."""
        home = self._homes[member]
        if home.outbox.received(beat) is not None and home.order is not None:
            self._push(self._now, member, home.order)

    def _push(self, time_s: float, member: str, order: Order) -> None:
        self._pushed += 1
        heapq.heappush(self._due, (time_s, member, self._pushed, order))

    # ---- records

    def _record(self, *, ended: str | None) -> None:
        """Record every member's accuracy with the model last delivered to it."""
        homes = list(self._homes.values())
        splits = dict.fromkeys(split for home in homes for split in home.splits)  # a member may lack validation samples
        found = {split: [home.evaluations().get(split) for home in homes] for split in splits}
        record = RoundRecord(
            number=self._recorded,
            clock=self._now,
            updates=self._machine.state.accepted,
            trained=tuple(self._trained.values()),
            splits={
                split: tuple(
                    None if one is None else ClientScore.of(one, None if ended is None else one.confusion)
                    for one in evaluations
                )
                for split, evaluations in found.items()
            },
            ended=ended or "",
        )
        if ended is not None:
            self._save()
        self._folder.append(record)
        self._recorded += 1
        self._options.on_round(record.number, record.mean)

    def _save(self) -> None:
        if not self._options.keep_models:
            return
        with self._folder.saving_models(self._recorded) as half:
            for name, home in self._homes.items():
                write_model(half / model_file_name(name), self._federation.spec, home.handed_over())
