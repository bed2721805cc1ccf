"""The participant's state machine: decides when to send hello, work, report, reconnect, give up and end.

Pure: takes events and the time, returns actions. It must not know sockets, files, threads, models or clocks. The line
to the coordinator (`reconnection`) and the local work change independently: training continues while the line is down.
The rules: one piece of work at a time; the newest order waits and replaces an older waiting one; a report is repeated
until the coordinator is known to hold it; an order that was carried out is never carried out again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from fedap_core.exit_codes import DONE, FAILED, WRONG_INPUT
from participant.decisions import events
from participant.decisions.actions import Action, CloseLine, DropPayload, Emit, End, Log, Order, Prepare, StopWork, Work
from participant.decisions.consent import Consent, Refusal, agreed_facts
from participant.decisions.events import Event, FromWork, Prepared, Report
from participant.decisions.guard import OrderGuard
from participant.decisions.reconnection import UNREADABLE_ANSWERS, ConnectionState
from participant.decisions.rejection import Rejections
from participant.decisions.steps import Activity, offered_bytes, order_after, order_step_of, require_had, step_of
from protocol.delivery import Outbox
from protocol.limits import TEXT_CHARS
from protocol.messages import (
    Anchor,
    Error,
    Finish,
    Goodbye,
    Heartbeat,
    Hello,
    HelloRequired,
    Leave,
    Message,
    Reject,
    Stats,
    Step,
    Train,
    Update,
    Welcome,
)


class AgentMachine:
    """One participant of one coordinator: call `start` once, then `handle` for every event; tick at `next_deadline`.

    consent: what the coordinator may ask for; None permits anything, for simulations of the protocol alone.
    """

    def __init__(
        self, *, hello: Hello, line: ConnectionState, model_bytes: int, consent: Consent | None = None
    ) -> None:
        self._hello, self._line = hello, line
        self._model_bytes = model_bytes
        self._guard = OrderGuard(consent)
        self._stored_run = hello.run
        self._welcome: Welcome | None = None
        self._prepared = False
        self._preparing = False
        self._working: Order | None = None
        self._waiting: Order | None = None
        self._have: Step | None = None
        self._kept: Step | None = None
        self._ordered = -1
        self._report: Report | None = None
        self._outbox = Outbox()
        self._ended: End | None = None
        self._rejections = Rejections()

    @property
    def phase(self) -> Activity:
        if self._ended is not None or isinstance(self._report, Goodbye):
            return Activity.DONE
        if not self._line.is_open:
            return Activity.OFFLINE
        if not self._line.is_member:
            return Activity.GREETING
        if isinstance(self._working, Anchor):
            return Activity.MEASURING
        return Activity.IDLE if self._working is None and not self._preparing else Activity.TRAINING

    def start(self, now: float) -> list[Action]:
        return self._line.connect(now)

    def next_deadline(self) -> float | None:
        return None if self._ended is not None else self._line.next_deadline()

    def handle(self, event: Event, now: float) -> list[Action]:
        """Return the actions for one event; none after End."""
        if self._ended is not None:
            return []
        match event:
            case events.LineOpened():
                self._line.opened(now)
                return self._send_hello(now)
            case events.LineLost(reason=reason):
                return self._line.lost(reason, now)
            case events.PayloadMoved():
                self._line.moved(now)
                return []
            case events.MessageReceived(message=message):
                self._line.received(now)
                return self._on_message(message, now)
            case events.Announced(message=message):
                self._line.received(now)
                return self._on_announced(message, now)
            case events.NotUnderstood(reason=reason):
                return self._on_no_answer(reason)
            case events.Ticked():
                return self._on_tick(now)
            case events.LeaveRequested(reason=reason, code=code):
                return [StopWork(), *self._leave(reason), *self._end(code, reason)]
            case _:
                return self._on_work(event, now)

    def wants(self, message: Message) -> bool:
        """Whether to fetch the payloads that a message offers. If not, the message arrives as `Announced`."""
        if offered_bytes(message) > self._model_bytes:
            return False
        if isinstance(message, Welcome):
            return not (self._is_in(message.run) or self._holds(message.run))
        if isinstance(message, Anchor | Train | Finish):  # of an unknown run: its welcome is on the way
            return not self._is_in(message.run) or (self._is_new(message) and self._guard.refusal(message) is None)
        return True

    def check_invariants(self) -> None:
        """Raise AssertionError when the machine contradicts itself; tests call it after every event."""
        if self._prepared and self._welcome is None:
            raise AssertionError("prepared for no run")
        if self._working is not None and not self._prepared:
            raise AssertionError("at work before the model is ready")
        if self._line.is_member and not self._line.is_open:
            raise AssertionError("a member without a line")
        orders = [one for one in (self._working, self._waiting) if one is not None and self._prepared]
        require_had(self._have, kept=self._kept, report=self._report, orders=orders)
        self._line.check_invariants()

    # --- the line -----------------------------------------------------------------------------------------------

    def _send_hello(self, now: float) -> list[Action]:
        """Send hello. It names the run whose initial model is stored here."""
        self._line.hello_sent(now)
        return [Emit(message=replace(self._hello, run=self._stored_run))]

    def _on_tick(self, now: float) -> list[Action]:
        due = self._line.tick(now)
        if (due.gave_up or due.farewell_over) and self._line.has_finished:
            return self._end(DONE, f"run {self._stored_run} is over; its final model is in the state folder")
        if due.gave_up:
            last = f"; last error: {self._line.last_loss}" if self._line.last_loss else ""
            return self._end(FAILED, f"no coordinator for {self._line.timeouts.give_up_s:g} s{last}")
        if due.farewell_over:
            return self._end(DONE, "the run is over; the coordinator did not confirm the last message")
        actions = [*due.actions, *(self._send_hello(now) if due.hello else [])]
        if due.beat and self._welcome is not None:
            actions.append(Emit(message=self._beat(self._welcome.run)))
        return actions

    def _beat(self, run: str) -> Heartbeat:
        """`have`: the latest order that even a crash would not make us need again; the coordinator stops sending it."""
        round_no = 0 if self._have is None else self._have.round_no
        return Heartbeat(run=run, round_no=round_no, have=self._kept, want=self._want())

    def _want(self) -> Step | None:
        """The earliest order that can come next; a later one will do as well."""
        if self._preparing or self._working is not None or self._waiting is not None:
            return None
        return order_after(self._have)

    def _end(self, code: int, reason: str) -> list[Action]:
        self._ended = End(code=code, reason=reason)
        self._line.closed()
        return [CloseLine(), self._ended]

    def _leave(self, reason: str) -> list[Action]:
        if self._welcome is None or not self._line.is_member or isinstance(self._report, Goodbye):
            return []
        return [Emit(message=Leave(run=self._welcome.run, reason=reason))]

    # --- messages -----------------------------------------------------------------------------------------------

    def _on_message(self, message: Message, now: float) -> list[Action]:
        match message:
            case Welcome():
                return self._on_welcome(message, now)
            case Reject():
                return self._on_reject(message, now)
            case HelloRequired():
                self._line.forgotten()
                return self._send_hello(now)
            case Anchor() | Train() | Finish():
                return self._on_order(message)
            case Heartbeat():
                return self._on_beat(message)
            case Error():
                facts = {"code": message.code, "reason": message.reason, "about": str(message.about)}
                if message.code == "name-in-use":
                    return [Log(name="name.contested", facts=facts, warn=True)]
                if message.code == "version":
                    return self._end(WRONG_INPUT, f"the coordinator uses another protocol version: {message.reason}")
                unanswered = [] if message.code == "rate" else self._on_no_answer(f"{message.code}: {message.reason}")
                return [Log(name="message.refused", facts=facts, warn=True), *unanswered]
            case _:
                return []  # the shell handles transfers; a coordinator sends nothing else

    def _on_no_answer(self, reason: str) -> list[Action]:
        """Handle an unusable answer to hello; end after too many, so that hello is not repeated forever."""
        if not self._line.unreadable_answer():
            return []
        why = f"{UNREADABLE_ANSWERS} hellos in a row got no valid answer: {reason}"
        return [StopWork(), *self._end(WRONG_INPUT, why)]

    def _on_announced(self, message: Message, now: float) -> list[Action]:
        """Handle a message whose payloads will not arrive. The run's initial model or the order may already be here;
        a payload larger than the model can never be used."""
        if (size := offered_bytes(message)) > self._model_bytes:
            reason = f"{message.KIND} announces {size} bytes; this model has at most {self._model_bytes}"
            return [StopWork(), *self._leave("an impossible offer"), *self._end(WRONG_INPUT, reason)]
        if isinstance(message, Welcome):
            return self._on_welcome(replace(message, initial=None), now)
        if not isinstance(message, Anchor | Train | Finish):
            return []
        refusal = self._guard.refusal(message)
        if refusal is not None and isinstance(message, Finish):  # a run may end at any time
            actions = self._guard.report_refusal(refusal, step_of(message)) if self._is_new(message) else []
            return [*actions, *self._on_order(replace(message, weights=None))]
        if refusal is not None:
            return self._on_order(message)
        return [] if self._is_new(message) else self._on_order(message)

    def _on_welcome(self, welcome: Welcome, now: float) -> list[Action]:
        known = self._is_in(welcome.run)
        if welcome.initial is None and not (known or self._holds(welcome.run)):
            self._stored_run = None  # the coordinator assumes we rejoin, but nothing of that run is stored here
            return self._send_hello(now)
        objection = self._guard.objection(welcome)
        if objection:
            leave = Leave(run=welcome.run, reason=objection[:TEXT_CHARS])
            return [StopWork(), Emit(message=leave), *self._end(WRONG_INPUT, objection)]
        self._line.welcomed(welcome.heartbeat_s, now)
        self._rejections.welcomed()
        if not known:
            self._line.goes_on()  # whether anything is left to do is known once the run is prepared
            self._welcome, self._prepared, self._preparing = welcome, False, True
            self._working = self._waiting = self._have = self._kept = self._report = None
            self._ordered, self._outbox = welcome.round_no, Outbox()
            return [Log(name="run.joined", facts=agreed_facts(welcome)), StopWork(), Prepare(welcome=welcome)]
        self._welcome, self._ordered = welcome, max(self._ordered, welcome.round_no)
        return self._send_owed()

    def _on_reject(self, reject: Reject, now: float) -> list[Action]:
        done, comes_back = self._line.has_finished or isinstance(self._report, Goodbye), self._stored_run is not None
        verdict = self._rejections.judge(reject, now, said_goodbye=done, comes_back=comes_back)
        if verdict.code is None:
            return self._line.lost(verdict.reason, now, at_most_s=verdict.at_most_s)
        return [*([StopWork()] if verdict.code else []), *self._end(verdict.code, verdict.reason)]

    def _on_order(self, order: Order) -> list[Action]:
        if not self._line.is_member:
            return []
        refusal = self._guard.refusal(order)
        if refusal is not None and not isinstance(order, Finish):  # a run may end at any time
            return self._refuse(refusal, step_of(order))
        self._ordered = max(self._ordered, order.round_no)
        if not self._is_new(order):
            return self._repeat_report_for(order)
        self._line.delivered()
        if self._prepared:
            self._have = step_of(order)
        self._waiting = order
        if self._working is None:
            return self._begin_waiting()
        return [StopWork()] if isinstance(order, Finish) else []

    def _refuse(self, refusal: Refusal, about: Step) -> list[Action]:
        actions = self._guard.report_refusal(refusal, about)
        if self._guard.has_reached_limit:
            why = f"the coordinator keeps sending orders that are not allowed; the latest: {refusal.reason}"
            actions += [StopWork(), *self._leave(why[:TEXT_CHARS]), *self._end(WRONG_INPUT, why)]
        return actions

    def _is_new(self, order: Order) -> bool:
        place = step_of(order).place
        after_waiting = self._waiting is None or place > step_of(self._waiting).place
        return after_waiting and (self._have is None or place > self._have.place)

    def _repeat_report_for(self, order: Order) -> list[Action]:
        """Send the report again: a repeated order shows that the coordinator does not have the answer."""
        if self._report is None or step_of(self._report).place != step_of(order).place:
            return []
        self._outbox.hold(step_of(self._report))
        return self._send_owed()

    def _on_beat(self, beat: Heartbeat) -> list[Action]:
        if self._outbox.held is None and beat.want is not None and self._is_wanted_again(beat):
            self._outbox.hold(beat.want)
        held = self._outbox.held
        again = self._outbox.received(beat)
        if held is not None and self._outbox.held is None and self._report is not None:
            self._line.delivered()
            if isinstance(self._report, Goodbye):
                return self._end(DONE, "the run is over")
            self._kept = order_step_of(self._report)
            return [DropPayload()]
        return self._send_owed() if again is not None else []

    def _is_wanted_again(self, beat: Heartbeat) -> bool:
        """Whether the coordinator has lost the latest report after receiving it."""
        report = self._report
        if report is None or isinstance(report, Goodbye) or beat.want is None or beat.want != step_of(report):
            return False
        return beat.have is None or beat.have.place < beat.want.place

    # --- work ---------------------------------------------------------------------------------------------------

    def _on_work(self, event: FromWork, now: float) -> list[Action]:
        match event:
            case events.Prepared():
                return self._on_prepared(event, now)
            case events.Reported(report=report, refused=refused):
                odd = [] if refused is None else self._refuse(refused, order_step_of(report))
                return odd if self._ended is not None else [*odd, *self._on_reported(report, now)]
            case events.Declined(refused=refused):
                about, self._working = self._working, None
                odd = [] if about is None else self._refuse(refused, step_of(about))
                return odd if self._ended is not None else [*odd, *self._begin_waiting()]
            case events.Stopped():
                self._working = None
                return self._begin_waiting()
            case events.Failed(reason=reason, leaves=leaves):
                return [*(self._leave("it failed") if leaves else []), *self._end(WRONG_INPUT, reason)]
            case _:
                assert_never(event)

    def _on_prepared(self, event: Prepared, now: float) -> list[Action]:
        if self._welcome is None or event.run != self._welcome.run:
            return []  # this run has been replaced in the meantime
        self._prepared, self._preparing, self._stored_run = True, False, event.run
        actions: list[Action] = []
        if event.report is not None:
            self._take(event.report, now)
            self._have = order_step_of(event.report)
        counts = event.train_samples, event.test_samples
        if counts != (self._hello.train_samples, self._hello.test_samples):
            self._hello = replace(self._hello, train_samples=counts[0], test_samples=counts[1])
            if self._line.is_open:  # the plan's split differs from the assumed one; its counts set the weights
                self._line.forgotten()
                actions += self._send_hello(now)
        waiting, self._waiting = self._waiting, None
        if waiting is not None and self._is_new(waiting):  # it may have been carried out before a restart
            self._waiting, self._have = waiting, step_of(waiting)
        return [*actions, *self._send_owed(), *self._begin_waiting()]

    def _on_reported(self, report: Report, now: float) -> list[Action]:
        self._working = None
        if self._welcome is None or report.run != self._welcome.run:
            return self._begin_waiting()
        self._take(report, now)
        return [*self._send_owed(), *self._begin_waiting()]

    def _take(self, report: Report, now: float) -> None:
        self._report = report
        self._outbox.hold(step_of(report))
        if not isinstance(report, Stats):  # statistics are not on disk: measuring again gives the same result
            self._kept = order_step_of(report)
        if isinstance(report, Goodbye):
            self._line.said_goodbye(now)

    def _send_owed(self) -> list[Action]:
        """Send the latest report if its receipt is not confirmed and the coordinator has ordered its round."""
        report = self._report
        if report is None or self._outbox.held is None or not self._line.is_member:
            return []
        over = self._have is not None and self._have.kind == "finish"
        if report.round_no > self._ordered or (over and not isinstance(report, Goodbye)):
            return []
        self._report = _in_full(report)
        return [Emit(message=report)]

    def _begin_waiting(self) -> list[Action]:
        if self._waiting is None or not self._prepared or self._working is not None:
            return []
        self._working, self._waiting = self._waiting, None
        self._have = step_of(self._working)
        return [Work(order=self._working)]

    def _is_in(self, run: str) -> bool:
        """Whether we have been welcomed to that run."""
        return self._welcome is not None and self._welcome.run == run

    def _holds(self, run: str) -> bool:
        """Whether the initial model of that run is stored here."""
        return run == self._stored_run


def _in_full(report: Report) -> Report:
    """Return the report with full weights for a repeat: the coordinator may have lost the base of a difference."""
    if isinstance(report, Update) and report.weights.in_full is not None:
        return replace(report, weights=report.weights.in_full)
    return report
