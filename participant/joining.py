"""Take part in a federation from start to end: the function behind `join`, also used by the lab.

Assembles the parts (data, model, state, threads) and waits until they end. All decisions are made elsewhere.
"""

from __future__ import annotations

import os
import queue
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from fedap_core.arrays import IndexArray
from fedap_core.errors import InvalidInput
from fedap_core.exit_codes import DONE, FAILED, cut_short_by
from fedap_core.model_spec import ModelSpec
from fedap_core.randomness import generator
from participant.config import DataSettings, JoinSettings
from participant.data.base import DataOptions
from participant.decisions.actions import End
from participant.decisions.consent import Consent
from participant.decisions.events import LeaveRequested
from participant.decisions.layouts import model_layout
from participant.decisions.machine import AgentMachine
from participant.decisions.reconnection import ConnectionState
from participant.record.kept_models import kept_models
from participant.record.model_file import make_initial, read_spec
from participant.record.private_state import PrivateState
from participant.sealing.group_key import GroupKey, read_group_key
from participant.shell import Shell, run_in_thread
from participant.training.home_data import HomeData
from participant.training.home_settings import HomeSettings
from participant.training.outgoing import find_step
from participant.training.pace import Progress
from participant.training.worker import Worker, training_lane
from participant.wire.line import Context, shared_context
from participant.wire.sent_log import SentLog
from protocol.host.command import software_version
from protocol.limits import MIB
from protocol.messages import Hello
from protocol.tensors import names_digest

log = structlog.get_logger()

MOST_STATISTICS_BYTES = 64 * MIB
"""Most bytes of all members' sealed statistics in one order: enough for a thousand members with the layers of a
LeNet-5, or a dozen with full covariances."""


@dataclass(frozen=True, kw_only=True)
class LocalSetup:
    """The data and the model, loaded before anything is sent."""

    data: HomeData
    spec: ModelSpec

    def split(self, settings: DataSettings) -> Mapping[str, IndexArray]:
        """Return the sample positions of each part, as the settings assume them before a plan is known."""
        return self.data.split(
            protocol=settings.split, validation=settings.validation, seed=settings.seed, name=settings.name
        )


def open_home(settings: DataSettings) -> LocalSetup:
    """Load the data and the model's description, and refuse them if they do not match."""
    if (settings.model_file is None) == (settings.model is None):
        raise InvalidInput("model", "both or none", "one of --model-file and --model")
    spec = None if settings.model_file is None else read_spec(settings.model_file)
    recipe = {} if spec is None else dict(spec.preprocessing.recipe)
    options = DataOptions(root=settings.data_root, options=settings.data_options, recipe=recipe)
    data = HomeData.load(settings.data, options)
    if spec is None:
        dataset = data.dataset
        spec, _ = make_initial(
            settings.model or "",
            input_shape=dataset.input_shape,
            classes=dataset.classes,
            preprocessing=dataset.preprocessing,
            seed=settings.seed,
        )
    return LocalSetup(data=data.fitted_to(spec), spec=spec)


def hello_of(
    home: LocalSetup, settings: DataSettings, run: str | None, instance: str, key: GroupKey | None = None
) -> Hello:
    """Return the first message: digests of everything that must agree, and the sample counts. instance: that of the
    state folder. key: the members' common key; with one, the counts may be hidden from the coordinator."""
    parts = home.split(settings)
    hidden = key is not None and isinstance(settings, JoinSettings) and settings.statistics_to == "members"
    return Hello(
        name=settings.name,
        instance=instance,
        process=secrets.token_hex(16),
        software=f"fedap {software_version()}",
        run=run,
        model_layout=model_layout(home.spec).digest,
        classes=names_digest(home.spec.classes),
        input_shape=home.spec.input_shape,
        preprocessing=home.spec.preprocessing.digest,
        train_samples=0 if hidden else len(parts["train"]),
        test_samples=0 if hidden else len(parts["test"]),
        group_key=None if key is None else key.fingerprint,
    )


@dataclass(frozen=True, kw_only=True)
class Host:
    """What the participants of one process share: the training thread, one piece of work at a time, and ZeroMQ's."""

    lane: ThreadPoolExecutor
    context: Context

    @classmethod
    def of(cls, participants: int) -> Host:
        """Create a host for that many participants; call `close` when all have ended."""
        return cls(lane=training_lane(), context=shared_context(participants))

    def close(self) -> None:
        self.context.term()
        self.lane.shutdown()


def join(
    settings: JoinSettings,
    *,
    home: LocalSetup | None = None,
    watch: Callable[[Progress], None] = lambda _progress: None,
    host: Host | None = None,
) -> End:
    """Take part until the run is over, the participant is asked to stop, or it cannot continue."""
    allowance, address, timeouts = settings.allowance(), settings.address(), settings.timeouts()
    key = _group_key(settings)
    home = home or open_home(settings)
    consent = Consent(
        spec=home.spec,
        allowance=allowance,
        name=settings.name,
        keyed=address.keys is not None,
        trusted=settings.trusted,
        group_key=None if key is None else key.fingerprint,
        statistics_to=settings.statistics_to,
    )
    with PrivateState(settings.state) as state:
        run = state.current_run()
        chance = generator(settings.seed, purpose="reconnect", participant=settings.name)
        machine = AgentMachine(
            hello=hello_of(home, settings, run, state.instance(), key),
            line=ConnectionState(timeouts, chance, has_finished=state.has_finished(run)),
            model_bytes=_most_bytes(home.spec, key),
            consent=consent,
        )
        context = None if host is None else host.context
        sent = state.disk.retry(state.sent_path.name, lambda: SentLog(state.sent_path))
        shell = Shell(address=address, machine=machine, sent=sent, context=context)
        worker = Worker(
            spec=home.spec,
            data=home.data,
            state=state,
            settings=_home_settings(settings, key, hosted=host is not None),
            post=shell.post,
            watch=watch,
            lane=None if host is None else host.lane,
        )
        with (
            _signals(lambda number: _ask_to_leave(shell, number)),
            structlog.contextvars.bound_contextvars(participant=settings.name),
        ):
            thread, ended = run_in_thread(shell, worker)
            end = _wait(ended)
            thread.join()
        with (
            _signals(lambda _number: worker.give_up_alone()),
            structlog.contextvars.bound_contextvars(participant=settings.name),
        ):
            worker.close(at_once=not (isinstance(end, End) and end.code == DONE))
        if isinstance(end, End) and end.code == DONE:
            end = End(code=DONE, reason="\n".join([*_comparison(settings), end.reason]))
    for fault in (end, worker.fault):
        if isinstance(fault, BaseException):
            raise fault
    return end if isinstance(end, End) else End(code=FAILED, reason="")


def _group_key(settings: JoinSettings) -> GroupKey | None:
    if settings.group_key is None:
        return None
    if settings.model_file is None:
        fix = "A sealed run compares it with the coordinator's model."
        raise InvalidInput("model_file", "nothing", "your own copy of the initial model, together with group_key", fix)
    return read_group_key(settings.group_key)


def _most_bytes(spec: ModelSpec, key: GroupKey | None) -> int:
    """The largest payload that an order can offer: the model and as much again, sealed or not, or the other members'
    sealed statistics. The algorithm is not known yet."""
    size = 2 * model_layout(spec).size_bytes("f32")
    return size if key is None else max(2 * size + 64, MOST_STATISTICS_BYTES)


def _home_settings(settings: JoinSettings, key: GroupKey | None, *, hosted: bool) -> HomeSettings:
    if hosted and settings.threads == "auto":
        raise InvalidInput("threads", "auto", "plan, because other participants train in this process", "Leave it out.")
    threads = len(os.sched_getaffinity(0)) if settings.threads == "auto" else None
    if threads is not None:
        log.warning("threads.chosen", threads=threads, note="results are not reproducible bit for bit")
    return HomeSettings(
        share_class_counts=settings.shares_class_counts,
        share_comparison=settings.shares_comparison and settings.also_local,
        also_local=settings.also_local,
        threads=threads,
        beside=settings.evaluate_beside and not hosted,
        trusted=settings.trusted,
        accept_plan=settings.accept_plan,
        algorithm_is_named=settings.algorithm is not None,
        model_file=settings.model_file,
        statistics_privacy=settings.private_statistics,
        update_privacy=settings.private_updates,
        outgoing_steps=tuple(map(find_step, settings.outgoing_steps)),
        anchor_file=settings.anchor_file,
        group_key=key,
    )


def _comparison(settings: JoinSettings) -> list[str]:
    """Lines that compare the federated model with the one trained alone, if there is one, or say that there is no
    federated one."""
    kept = kept_models(settings.state)
    if kept is None:
        return []
    return kept.words() if settings.also_local else kept.instead_words()


def _wait(ended: queue.SimpleQueue[End | BaseException]) -> End | BaseException:
    """Wait in short intervals: Python handles signals that arrived in another thread only between two of them."""
    turn_s = 1.0 if threading.current_thread() is threading.main_thread() else None
    while True:
        try:
            return ended.get(timeout=turn_s)
        except queue.Empty:
            continue


def _ask_to_leave(shell: Shell, number: int) -> None:
    name = signal.Signals(number).name
    shell.post(LeaveRequested(reason=f"stopped by {name}", code=cut_short_by(number)))


@contextmanager
def _signals(ask: Callable[[int], None]) -> Iterator[None]:
    """Handle SIGTERM and SIGINT with `ask`; only in the main thread, where Python can handle signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, lambda given, _frame: ask(given)) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
