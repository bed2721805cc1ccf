"""The training thread: one task at a time, whose end is an event; the socket's thread never waits for it.

A stop request reaches the work between two batches. Wrong input by anybody becomes `Failed` with its sentence; any
other exception is ours, is kept for the caller to raise, and ends the participant too. Participants that share a
process may share the thread: torch keeps one state of randomness and one number of threads for all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import structlog

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from participant.decisions.actions import Order
from participant.decisions.consent import OrderRefused
from participant.decisions.events import Declined, Event, Failed, Prepared, Report, Reported, Stopped
from participant.record.private_state import DamagedState, PrivateState
from participant.training.home_data import HomeData
from participant.training.home_run import HomeRun
from participant.training.home_settings import HomeSettings
from participant.training.pace import Progress
from protocol.errors import ProtocolError
from protocol.messages import Anchor, Finish, Welcome

log = structlog.get_logger()


def training_lane() -> ThreadPoolExecutor:
    """A thread for training. It is started by the first piece of work."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="training")


class Worker:
    """Queues work; `post` takes its events from the training thread. lane: a training thread shared with others."""

    def __init__(
        self,
        *,
        spec: ModelSpec,
        data: HomeData,
        state: PrivateState,
        settings: HomeSettings,
        post: Callable[[Event], None],
        watch: Callable[[Progress], None] = lambda _progress: None,
        lane: ThreadPoolExecutor | None = None,
    ) -> None:
        self._spec = spec
        self._data = data
        self._state = state
        self._settings = settings
        self._post = post
        self._watch = watch
        self._run: HomeRun | None = None
        self._stop = threading.Event()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._queued = 0
        self._named: dict[str, str] = {}
        self._is_own_lane = lane is None
        self._lane = lane or training_lane()
        self._alone_failed = False
        self._unfinished: set[Future[Event | None]] = set()
        self.fault: BaseException | None = None
        """What ended the work unexpectedly."""

    def prepare(self, welcome: Welcome) -> None:
        self._submit(lambda: self._prepare(welcome))
        self._train_alone_when_idle()

    def work(self, order: Order) -> None:
        self._submit(lambda: self._carry_out(order))
        self._train_alone_when_idle()

    def stop(self) -> None:
        """Ask the present work to end after its batch; work queued later is not affected."""
        self._stop.set()

    def give_up_alone(self) -> None:
        """Leave out what is still to be trained for comparison alone."""
        self._closing.set()

    def close(self, *, at_once: bool) -> None:
        """End the work: after everything queued, or after the present batch. A shared lane goes on for the others."""
        if at_once:
            self._closing.set()
            self._state.disk.give_up()
        with self._lock:
            unfinished = set(self._unfinished)
        for future in unfinished if at_once else ():
            future.cancel()
        wait(unfinished)
        if self._run is not None:
            self._run.close()
        if self._is_own_lane:
            self._lane.shutdown(wait=True)

    def _train_alone_when_idle(self) -> None:
        if self._settings.also_local:
            self._queue(self._train_alone)

    def _submit(self, work: Callable[[], Event | None]) -> None:
        with self._lock:
            self._queued += 1
        self._queue(work)

    def _queue(self, work: Callable[[], Event | None]) -> None:
        future = self._lane.submit(work)
        with self._lock:
            self._unfinished.add(future)
        future.add_done_callback(self._ended)

    def _begin(self) -> None:
        with self._lock:
            self._queued -= 1
        self._stop.clear()
        structlog.contextvars.bind_contextvars(**self._named)

    def _is_stopped(self) -> bool:
        return self._stop.is_set() or self._closing.is_set()

    def _must_give_way(self) -> bool:
        """Training alone waits for every order, and goes on after it."""
        return self._queued > 0 or self._closing.is_set()

    def _ended(self, future: Future[Event | None]) -> None:
        with self._lock:
            self._unfinished.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            event = future.result()
            if event is not None:
                self._post(event)
            return
        if not isinstance(error, InvalidInput | ProtocolError):
            self.fault = error
        leaves = not isinstance(error, DamagedState)  # its operator can repair that, and it comes back
        self._post(Failed(reason=str(error) or type(error).__name__, leaves=leaves))

    def _prepare(self, welcome: Welcome) -> Event:
        self._named = {"run": welcome.run, "participant": welcome.participant}
        self._begin()
        if self._run is not None:
            self._run.close()
        self._run = HomeRun(
            welcome=welcome,
            spec=self._spec,
            data=self._data,
            state=self._state,
            settings=self._settings,
            watch=self._watch,
        )
        train_samples, test_samples = self._run.counts
        return Prepared(
            run=welcome.run,
            report=self._run.finished_report,
            train_samples=train_samples,
            test_samples=test_samples,
        )

    def _carry_out(self, order: Order) -> Event:
        if self._run is None:
            raise InvalidInput("order", order.KIND, "a run that has been prepared")
        self._begin()
        try:
            report = self._report_on(self._run, order)
        except OrderRefused as error:
            return Declined(refused=error.refusal)
        return Stopped() if report is None else Reported(report=report, refused=self._run.refused)

    def _report_on(self, run: HomeRun, order: Order) -> Report | None:
        if isinstance(order, Anchor):
            return run.measure(order)
        return run.finish(order) if isinstance(order, Finish) else run.train(order, self._is_stopped)

    def _train_alone(self) -> Event | None:
        if self._run is None or self._alone_failed:
            return None
        try:
            self._run.train_alone(self._must_give_way)
        except InvalidInput as error:  # the federation does not depend on it
            self._alone_failed = True
            log.warning("alone.failed", reason=str(error), note="there is no model trained alone to compare with")
        return None
