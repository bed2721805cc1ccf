"""The training thread: one task at a time, whose outcome is posted as an event; the socket's thread never waits for it.

A stop request takes effect between two batches. Invalid input from any side becomes `Failed` with its message; any
other exception is a bug, is kept for the caller to raise, and also ends the participant. Participants of one process
may share the thread: torch has one random state and one thread count per process.
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
    """Create an executor with one training thread, which starts with the first task."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="training")


class Worker:
    """Queues tasks; calls `post` with their events from the training thread. lane: a shared training thread."""

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
        """The unexpected exception that ended the work, if any."""

    def prepare(self, welcome: Welcome) -> None:
        self._submit(lambda: self._prepare(welcome))
        self._train_alone_when_idle()

    def work(self, order: Order) -> None:
        self._submit(lambda: self._carry_out(order))
        self._train_alone_when_idle()

    def stop(self) -> None:
        """Ask the current task to end after its batch; tasks queued later are not affected."""
        self._stop.set()

    def give_up_alone(self) -> None:
        """Skip the remaining training of the model trained alone, which only serves comparison."""
        self._closing.set()

    def close(self, *, at_once: bool) -> None:
        """End the work: after all queued tasks, or after the current batch. A shared lane keeps running."""
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
        """Whether training alone must pause: it yields to every order, and continues afterwards."""
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
        leaves = not isinstance(error, DamagedState)  # the operator can repair that and rejoin
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
