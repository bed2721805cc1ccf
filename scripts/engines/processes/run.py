"""Makes one run as a federation of processes on this machine, with the same run folder as the inline engine.

The same settings give the same bits. All intermediate files are in the run folder's `federation/`: a run that is called
again resumes from there, whatever ended it. This process forks and monitors; it never trains, and reads the run's
journal only after the last fork.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedap_core.errors import InvalidInput
from participant.config import JoinSettings
from participant.record.model_file import read_spec
from participant.record.private_state import PERSONAL
from scripts.engines.base import EngineOptions
from scripts.engines.inline import anchor_file, initial_file
from scripts.engines.processes.children import ChildFailed, Children
from scripts.engines.processes.configuring import Start, join_settings, require_possible, write_config
from scripts.engines.processes.roles import run_coordinator, run_participants
from scripts.engines.processes.shards import shard_path, write_shards
from scripts.run.cohort import Cohort, model_file_name
from scripts.run.forked import ChildTask
from scripts.run.run_folder import RunFolder, write_text
from scripts.run.settings import RunSettings
from scripts.run.versions import versions

if TYPE_CHECKING:
    from scripts.engines.processes.recording import RunRecorder

GLANCE_S = 0.2
"""How often the journal is read while no process ends."""
FAREWELL_S = 15.0
"""How long participants may take to end after the coordinator; their goodbyes have been received by then."""

_ENDPOINT_BYTES = 64
"""Length of an address padded with blanks: each participant reads one from a pipe that all of them share."""


@dataclass(frozen=True, kw_only=True)
class ProcessOptions(EngineOptions):
    """keep_federation: keep all intermediate files for inspection."""

    keep_federation: bool = False
    on_started: Callable[[Sequence[int]], None] = lambda _pids: None
    """Called with the ids of all processes once they are started, the coordinator's first."""
    run_participants: Callable[[Sequence[JoinSettings]], int] = run_participants
    """Runs in a participants' process; returns its exit code."""


def run_any(settings: RunSettings, cohort: Cohort, options: EngineOptions) -> RunFolder:
    """`run_processes` with the signature of the table of engines."""
    shared = {field.name: getattr(options, field.name) for field in fields(EngineOptions)}
    return run_processes(settings, cohort, ProcessOptions(**shared))


def run_processes(settings: RunSettings, cohort: Cohort, options: ProcessOptions) -> RunFolder:
    """Make a run, unless it is complete, and return its folder."""
    require_possible(settings, cohort)
    folder = RunFolder(options.root, settings)
    folder.make_once(cohort.described(), lambda: _Federation(settings, cohort, folder, options).run())
    return folder


class _Federation:
    """One run: its files, its processes, its end."""

    def __init__(self, settings: RunSettings, cohort: Cohort, folder: RunFolder, options: ProcessOptions) -> None:
        self._settings = settings
        self._cohort = cohort
        self._folder = folder
        self._options = options
        self._home = folder.path.absolute() / "federation"  # relative paths in a configuration start at its file
        self._mark = self._home / "identity"
        self._coordinator = self._home / "coordinator"
        self._names = cohort.names

    def run(self) -> None:
        self._take_home()
        self._folder.begin_anew(versions(), self._cohort.described(), keep_models=self._options.keep_models)
        if self._has_ended():  # an earlier call was interrupted while it wrote the results
            self._record_finished(self._make_start())
        else:
            self._run_to_end()
        if self._options.keep_models:
            self._keep_models()
        if not self._options.keep_federation:
            self._tidy()

    # ---- before

    def _make_start(self) -> Start:
        """Make the model files in children: this process may not touch a tensor before its last fork."""
        apart = EngineOptions(root=self._options.root.absolute(), workers=2)
        initial = initial_file(self._settings, self._cohort, apart)
        if not self._settings.uses_anchor or self._settings.warm_up_rounds:
            return Start(initial=initial, anchor=None)
        anchor = anchor_file(self._settings, self._cohort, initial, apart).absolute()
        return Start(initial=anchor if self._settings.start_from == "anchor" else initial, anchor=anchor)

    def _take_home(self) -> None:
        """Resume in the folder of an earlier call with the same settings; remove one of other settings."""
        mark, wanted = self._mark, f"{self._settings.identity}, {self._settings.rounds} rounds"
        if self._home.exists() and not (mark.exists() and mark.read_text(encoding="utf-8") == wanted):
            shutil.rmtree(self._home)
        self._home.mkdir(parents=True, exist_ok=True)
        write_text(mark, wanted)

    def _has_ended(self) -> bool:
        if not self._coordinator.exists():
            return False
        from scripts.engines.processes.recording import has_ended

        return has_ended(self._coordinator)

    # ---- the run

    def _run_to_end(self) -> None:
        """Run the federation to its end with overlapping start: the coordinator imports its modules while the model is
        made, and starts while participants are forked; samples are written at the same time."""
        with Children(self._home / "logs") as children:
            config = self._home / "run.toml"
            call = self._fork_coordinator(children, config)
            writing = ChildTask(lambda: list(write_shards(self._home / "shards", self._cohort)))
            try:
                start = self._make_start()
                write_config(config, self._settings, self._cohort, start, folder=self._coordinator)
                os.close(call)
                send_endpoint = self._fork_participants(children, start)
            except BaseException:
                writing.abandon()
                raise
            writing.wait()
            send_endpoint(self._read_endpoint(children))
            self._options.on_started([child.process.pid or 0 for child in children.alive])
            self._watch(children, start)

    def _fork_coordinator(self, children: Children, config: Path) -> int:
        """Fork the coordinator, which waits for its configuration; return the handle to close once that is written."""
        readable, writable = os.pipe()
        called, call = os.pipe()

        def work() -> int:
            os.close(call)
            return run_coordinator(config, called=called)

        children.fork("coordinator", work, stdout=writable)
        for handle in (writable, called):
            os.close(handle)
        self._coordinator_output = readable
        return call

    def _fork_participants(self, children: Children, start: Start) -> Callable[[str], None]:
        """Fork participants, which wait until all is ready; return the function that tells them the endpoint."""
        readable, writable = os.pipe()
        groups = _groups(self._names, self._options.participants_per_process)

        def work(names: Sequence[str]) -> int:
            endpoint = os.read(readable, _ENDPOINT_BYTES).decode().strip()
            return self._options.run_participants([self._member(name, start, endpoint) for name in names])

        for names in groups:
            label = names[0] if len(names) == 1 else f"{names[0]}-to-{names[-1]}"
            children.fork(label, partial(work, names))

        def send_endpoint(endpoint: str) -> None:
            for _ in groups:  # each process reads one
                os.write(writable, endpoint.encode().ljust(_ENDPOINT_BYTES))
            for handle in (readable, writable):
                os.close(handle)

        return send_endpoint

    def _member(self, name: str, start: Start, endpoint: str) -> JoinSettings:
        shard = shard_path(self._home / "shards", name)
        state = self._home / "participants" / name
        return join_settings(self._settings, name, endpoint=endpoint, shard=shard, initial=start.initial, state=state)

    def _read_endpoint(self, children: Children) -> str:
        """Wait until the coordinator listens and return its endpoint."""
        line = b""
        while not line.endswith(b"\n"):
            children.wait(self._coordinator_output, timeout_s=3600.0)
            line += os.read(self._coordinator_output, 1)
        return line.decode().split()[-1]

    def _watch(self, children: Children, start: Start) -> None:
        recorder = self._recorder(start)
        try:
            farewell_ends = None
            while children.alive:
                try:
                    children.wait(timeout_s=GLANCE_S)
                except ChildFailed:
                    recorder.catch_up()  # the journal may have a better reason
                    raise
                recorder.catch_up()
                if farewell_ends is None and not any(child.name == "coordinator" for child in children.alive):
                    farewell_ends = time.monotonic() + FAREWELL_S
                if farewell_ends is not None and time.monotonic() > farewell_ends:
                    break
            self._complete(recorder)
        finally:
            recorder.close()
            os.close(self._coordinator_output)
        if not recorder.is_over:
            raise ChildFailed(f"the coordinator ended before the run; see {self._home / 'logs' / 'coordinator.log'}")

    def _record_finished(self, start: Start) -> None:
        recorder = self._recorder(start)
        try:
            self._complete(recorder)
        finally:
            recorder.close()

    def _complete(self, recorder: RunRecorder) -> None:
        """Write the last rounds. If any is missing, the next call begins anew: this federation has nothing to add."""
        recorder.catch_up(is_last=True)
        try:
            recorder.require_complete(self._home / "logs")
        except InvalidInput:
            self._mark.unlink()
            raise

    def _recorder(self, start: Start) -> RunRecorder:
        from scripts.engines.processes.recording import RunRecorder  # after the last fork: participants do not need it

        spec, on_round = read_spec(start.initial), self._options.on_round
        return RunRecorder(self._settings, self._cohort, self._folder, self._coordinator, spec=spec, on_round=on_round)

    # ---- afterwards

    def _keep_models(self) -> None:
        with self._folder.saving_models(self._settings.rounds - 1) as half:
            for name in self._names:
                home = self._home / "participants" / name
                shutil.copyfile(home / PERSONAL, half / model_file_name(name))
                self._keep_rest(home, name, half)

    def _keep_rest(self, home: Path, name: str, half: Path) -> None:
        """Keep what an algorithm stores beside the personal model: a longer run resumes from it."""
        from participant.record.private_state import PrivateState
        from scripts.run.kept_files import write_kept

        strategy, spec = self._settings.strategy(), read_spec(home / PERSONAL)
        state = PrivateState(home)
        run = state.current_run()
        last = None if run is None else state.run(run, spec).latest()
        if last is not None and (strategy.hands_over_another or last.extras_of("home")):
            write_kept(half, name, spec, last.model, last.extras_of("home"))

    def _tidy(self) -> None:
        """Remove samples, weights, states and logs; the coordinator's journal stays, for `fedap-coordinator replay`."""
        for name in ("shards", "participants", "logs"):
            shutil.rmtree(self._home / name, ignore_errors=True)
        for path in self._coordinator.iterdir():
            if path.is_dir():
                shutil.rmtree(path)


def _groups(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[at : at + size] for at in range(0, len(names), size)]
