"""Opens the folder of a run: locks it, checks its description, and builds a coordinator from it.

journal.sqlite is the record, including the plan, configuration and model with which the run began; blobs/ holds the
tensors that it names; run.toml is a copy for people. Only one process at a time may run the folder. Everything about
the run itself is decided elsewhere.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coordinator.computing.jobs import Jobs
from coordinator.config import RunConfig, make_config, require_safe
from coordinator.decisions.actions import BlobRef
from coordinator.decisions.machine import RoundMachine
from coordinator.decisions.rules import Rules
from coordinator.observers import Observer, Observers, make_observers
from coordinator.observers.notice_file import read_notices
from coordinator.record.blobs import OpenFiles
from coordinator.record.disk import SpaceGuard, expected_members, room_beside
from coordinator.record.folder_check import note_models, require_sound
from coordinator.record.journal import JOURNAL, Journal, Ledger, NotWritten, SqliteJournal, replay
from coordinator.record.member_list import MemberList
from coordinator.record.model_forms import ModelFile, ModelForms
from coordinator.record.recovery import Recovery, recovery_of
from coordinator.record.store import TOGETHER, Store
from coordinator.record.traffic import TRAFFIC
from coordinator.run_plan import (
    allowed_members,
    make_plan,
    make_rules,
    plan_text,
    require_enough_listed,
    require_same_plan,
    with_measured_step,
)
from coordinator.server import Coordinator, Parts
from coordinator.wire.connections import Arrivals, Deliveries, Limits, Peers
from coordinator.wire.exchange import Exchange, Orders
from coordinator.wire.router import STRANGERS, Router
from fedap_core.errors import InvalidInput
from fedap_core.measures import statistics_arrays
from fedap_core.model_spec import METADATA_KEY, ModelSpec
from fedap_core.strategies import Measure, Phase, Strategy
from protocol.backlog import MESSAGE_BYTES, BacklogLimits
from protocol.encodings import stored
from protocol.host.keys import read_key_file
from protocol.host.memory import keep_freed_memory
from protocol.host.open_files import require_open_files
from protocol.limits import FRAME_BYTES, HEADER_BYTES, KIB, SLICE_BYTES
from protocol.messages import Plan
from protocol.sealed_sets import most_box_bytes
from protocol.traffic import Dispatch, Intake

LOCK = "lock"
"""File locked by the process that runs the folder."""

OWN_FILES = 48
"""Descriptors besides those of connections and stored reports: a coordinator opens about 30."""

FEWEST_STRANGERS = 16

_CONNECTION_FILES = 2
"""Descriptors of a connection: the library's and the guard's."""


@dataclass(frozen=True, kw_only=True)
class Federation:
    """A coordinator that is bound to its endpoint and ready to `run`."""

    coordinator: Coordinator
    endpoint: str
    exchange: Exchange
    machine: RoundMachine


def open_run(
    config: RunConfig,
    *,
    config_file: Path | None = None,
    open_journal: Callable[[Path], Journal] = SqliteJournal,
    observers: Sequence[Observer] = (),
) -> Federation:
    """Start a run, or resume the one in the folder; it is bound to its endpoint when this returns. observers: in
    addition to those of the configuration."""
    require_safe(config.network)
    initial = ModelFile(config.initial)
    anchor = ModelFile(config.anchor.file) if config.anchor.file is not None else None
    plan = make_plan(config, initial.spec)
    config = with_measured_step(config, plan, initial)
    listed = MemberList(config.members.keys) if config.members.keys is not None else None
    rules = make_rules(config, initial.spec, listed)
    keys = read_key_file(config.network.secret_key) if config.network.secret_key is not None else None
    expected = max(config.members.at_least, len(config.members.names or ()), len(listed.names()) if listed else 0)
    files = require_open_files(needed_files(expected) + _CONNECTION_FILES * FEWEST_STRANGERS)
    keep_freed_memory()
    release = _take_folder(config.folder)
    models = {"initial": config.initial, "anchor": config.anchor.file}
    try:
        missing = require_sound(config.folder, rules, models)
        journal = open_journal(config.folder / JOURNAL)
        if journal.metadata("plan") is None:
            require_enough_listed(config, listed)
        _introduce(journal, config, plan, initial.spec, models, rules.strategy)
        watching = Observers([*make_observers(config), *observers])
    except InvalidInput:
        release()
        raise
    except NotWritten as error:
        release()
        fix = "Free some space and start it again."
        raise InvalidInput("folder", str(config.folder), f"one that can be written to ({error})", fix) from error
    if config_file is not None:
        shutil.copyfile(config_file, config.folder / "run.toml")
    store = Store(config.folder)
    forms = ModelForms(
        initial=initial,
        anchor=anchor,
        strategy=rules.strategy,
        encoding=config.encoding,
        store=store,
        sealed=config.sealed,
    )
    admits: Callable[[str], bool] = (lambda key: listed.name_of(key) is not None) if listed else (lambda _key: True)
    capacity = config.network.in_flight_bytes
    router = Router(
        endpoint=config.network.endpoint,
        keys=keys,
        admits=admits,
        in_flight_bytes=capacity,
        bounds=_bounds(config, expected, files, _limits(forms, initial.spec, rules), initial.spec),
    )
    return _assemble(
        config, plan, rules, initial.spec, journal, store, forms, router, admits, listed, release, missing, watching
    )


def _assemble(
    config: RunConfig,
    plan: Plan,
    rules: Rules,
    spec: ModelSpec,
    journal: Journal,
    store: Store,
    forms: ModelForms,
    router: Router,
    admits: Callable[[str], bool],
    listed: MemberList | None,
    release: Callable[[], None],
    missing: tuple[BlobRef, ...],
    watching: Observers,
) -> Federation:
    machine = RoundMachine(rules)
    capacity = config.network.in_flight_bytes
    intake = Intake(capacity_bytes=capacity, digest=store.incoming.digest)
    arrivals = Arrivals(store=store, limits=_limits(forms, spec, rules), intake=intake, judge=machine)
    deliveries = Deliveries(Dispatch(capacity_bytes=capacity))
    exchange = Exchange(
        router=router,
        peers=Peers(messages_per_s=config.network.messages_per_s),
        arrivals=arrivals,
        deliveries=deliveries,
        admits=admits,
    )
    parts = Parts(
        machine=machine,
        journal=journal,
        ledger=Ledger(
            journal,
            traffic=exchange.taken_traffic,
            traffic_file=config.folder / TRAFFIC,
        ),
        store=store,
        forms=forms,
        jobs=Jobs(store=store, forms=forms, spec=spec, rules=rules),
        router=router,
        exchange=exchange,
        arrivals=arrivals,
        orders=Orders(
            run=config.run,
            plan=plan,
            heartbeat_s=config.pace.heartbeat_s,
            forms=forms,
            deliveries=deliveries,
            exchange=exchange,
        ),
        space=_space_guard(config, machine, store, _row_bytes(forms, rules)),
        allowed=lambda: allowed_members(config, listed),
        release=release,
        observers=watching,
        list_fault=lambda: listed.fault if listed is not None else "",
        older_advice=f"Stop it and restore the newer folder, or continue from the members' state: "
        f"`fedap-coordinator recover {config.folder} --accept-older --yes`",
        missing=missing,
    )
    return Federation(coordinator=Coordinator(parts), endpoint=router.endpoint, exchange=exchange, machine=machine)


def _space_guard(config: RunConfig, machine: RoundMachine, store: Store, row_bytes: int) -> SpaceGuard:
    return SpaceGuard(
        free_bytes=room_beside(config.folder / JOURNAL, store.free_bytes),
        can_write=store.can_write,
        members=partial(expected_members, machine, config.members.at_least),
        row_bytes=row_bytes,
        reserve_bytes=config.storage.reserve_bytes,
        clock=time.monotonic,
    )


def _row_bytes(forms: ModelForms, rules: Rules) -> int:
    phase = Phase.WARMUP if rules.warmup_rounds else Phase.MIXED
    return forms.updates(phase).size_bytes(stored(forms.upward))


def _limits(forms: ModelForms, spec: ModelSpec, rules: Rules) -> Limits:
    """Return the size limits of reports. Statistics of C channels hold a count, mean and variance, and a covariance if
    the strategy compares those."""
    layouts = {forms.updates(Phase.MIXED)} | ({forms.updates(Phase.WARMUP)} if rules.warmup_rounds else set())
    sizes = [
        sum(8 * math.prod(array.shape) for array in statistics_arrays(spec, rules.strategy, measure))
        for measure in (Measure.BN_INPUTS, Measure.HEAD_INPUTS)
    ]
    most = most_box_bytes(max(sizes)) if rules.members_compute_rows else max(sizes)
    return Limits(updates=tuple(layouts), statistics_bytes=most)


def needed_files(members: int) -> int:
    """Return how many files a coordinator may have open, without strangers. A member may be connected twice: a broken
    connection is found dead only after a minute. The computing thread stores up to TOGETHER reports at once, or mixes
    with up to OpenFiles.MOST files."""
    return OWN_FILES + max(TOGETHER, OpenFiles.MOST) + 2 * _CONNECTION_FILES * members


def _bounds(config: RunConfig, expected: int, files: int, limits: Limits, spec: ModelSpec) -> BacklogLimits:
    """Return how many strangers may be connected at once, as far as the limit of open files allows, and the largest
    message of this run: a slice, or a report with everything small enough for one message. expected: members."""
    strangers = min(STRANGERS + 2 * expected, (files - needed_files(expected)) // _CONNECTION_FILES)
    tables = 16 * len(spec.classes) * (len(spec.classes) + 1)
    sizes = [
        *(layout.size_bytes(stored(config.encoding)) for layout in limits.updates),
        limits.statistics_bytes,
        tables,
    ]
    whole = sum(size for size in sizes if size <= SLICE_BYTES) + HEADER_BYTES
    largest = max(whole, FRAME_BYTES) if max(sizes) > SLICE_BYTES else whole
    return BacklogLimits(strangers=strangers, message_bytes=min(largest + 64 * KIB, MESSAGE_BYTES))


def _take_folder(folder: Path) -> Callable[[], None]:
    """Lock the folder for this process; the system releases the lock however the process ends."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise InvalidInput("folder", folder, "a run that no other process is running") from error
    return lambda: os.close(handle)


def _introduce(
    journal: Journal,
    config: RunConfig,
    plan: Plan,
    spec: ModelSpec,
    models: Mapping[str, Path | None],
    strategy: Strategy,
) -> None:
    """Record plan, configuration and model of a new run; refuse to resume a run under other ones. The plan is written
    last, so that a run with a plan has everything else, even after a kill or a full disk."""
    before = journal.metadata("plan")
    if before is not None:
        longer = plan.rounds > json.loads(before)["rounds"]
        ended = longer and any(entry.kind == "Finished" for entry in journal.entries())
        require_same_plan(before, plan, strategy, ended=ended)
        if (named := journal.metadata("run")) != config.run:
            raise InvalidInput("run", config.run, f"{named}, whose folder this is")
        if journal.metadata("model") != _described(spec):
            raise InvalidInput("initial", str(config.initial), "the model that this run began with")
    journal.set_metadata("config", config.model_dump_json())
    note_models(journal, models)
    if before is None:
        journal.set_metadata("run", config.run)
        journal.set_metadata("model", _described(spec))
    journal.set_metadata("plan", plan_text(plan))


def _described(spec: ModelSpec) -> str:
    return spec.to_metadata()[METADATA_KEY]


def _listed_if_readable(config: RunConfig) -> MemberList | None:
    """Return the list of members, or None if it is invalid: that must not prevent reading a run."""
    try:
        return MemberList(config.members.keys) if config.members.keys is not None else None
    except InvalidInput:
        return None


def plan_recovery(folder: Path, *, accept_older: bool, backup: Path | None, agreed: bool) -> Recovery:
    """Plan how to resume a folder that no process is running; perform the steps if `agreed`."""
    if not folder.is_dir():
        raise InvalidInput("folder", folder, "the folder of a run")
    release = _take_folder(folder)
    try:
        found = recovery_of(folder, accept_older=accept_older, backup=backup, make_rules=_stored_rules)
        if agreed and not found.asks:
            found.carry_out()
    finally:
        release()
    return found


def _stored_rules(stored: str) -> Rules:
    """Return the rules for a stored configuration (JSON), to replay its journal."""
    config = make_config(json.loads(stored))
    return make_rules(config, ModelFile(config.initial).spec, _listed_if_readable(config))


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A run read from its journal: no lock, nothing written."""

    folder: Path
    config: RunConfig
    spec: ModelSpec
    machine: RoundMachine
    journal: SqliteJournal
    ran_s: float

    def notices(self) -> tuple[str, ...]:
        """Return the running coordinator's notices to its operator."""
        return () if self.machine.state.ended else read_notices(self.folder)


def read_run(folder: Path) -> StoredRun:
    """Read a run's folder, during the run or afterwards."""
    journal = SqliteJournal(folder / JOURNAL, read_only=True)
    config, spec, machine = stored_machine(journal, folder)
    ran_s = replay(machine, journal)
    return StoredRun(folder=folder, config=config, spec=spec, machine=machine, journal=journal, ran_s=ran_s)


def stored_machine(journal: Journal, folder: Path) -> tuple[RunConfig, ModelSpec, RoundMachine]:
    """Return the configuration and model of a journal's run, and a machine with its rules before any fact."""
    stored, described = journal.metadata("config"), journal.metadata("model")
    if stored is None or described is None:
        raise InvalidInput("folder", folder, "a run that has begun")
    config = make_config(json.loads(stored))
    spec = ModelSpec.from_metadata({METADATA_KEY: described}, source=str(folder / JOURNAL))
    return config, spec, RoundMachine(make_rules(config, spec, _listed_if_readable(config)))
