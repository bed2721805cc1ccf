"""Holds clients on a Ray cluster or on this machine's cores: one long-lived actor per core has a shard of them.

Actors keep batch norm and whatever an algorithm keeps locally; updates and mixed models are sent as rows, and the main
process mixes them as the inline engine does, so the number of actors and nodes changes no bit. If an actor or a node
dies, all clients return to the last saved round, on the available actors, and the rounds since then are repeated. Ray
transfers objects by pickle: an exception for the lab, which trusts its own machines; nothing in the product imports
this file.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput, missing_library
from fedap_core.metrics import Evaluation
from fedap_core.strategies import Measure
from participant.record.model_file import read_spec
from participant.training.local import LocalPlan, LocalReport
from scripts.engines.base import EngineOptions
from scripts.engines.inline import run_inline
from scripts.engines.pool import Chosen, InlinePool, make_clients
from scripts.run.cohort import Cohort, model_file_name
from scripts.run.messages import error_from_json, error_to_json
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings

ATTEMPTS = 10
"""How often a run is started; every time but the first because actors have died."""

START_S = 300.0
"""Seconds that an actor may take to start; those that take longer are not used."""

_ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Long timeouts for busy machines, actors with the same priority as this process, and no usage statistics."""


def run_ray(settings: RunSettings, cohort: Cohort, options: EngineOptions) -> RunFolder:
    """Run the missing rounds of a run and return its folder."""
    ray = load_ray()
    lost = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError, ray.exceptions.NodeDiedError)
    for _ in range(ATTEMPTS - 1):
        try:
            return run_inline(settings, cohort, options, open_pool=open_pool)
        except lost:
            continue
    return run_inline(settings, cohort, options, open_pool=open_pool)


def load_ray() -> Any:  # noqa: ANN401 - a module that may not be installed
    """Import the library, if it is installed."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise missing_library("ray") from error


def open_pool(settings: RunSettings, cohort: Cohort, start: Path, options: EngineOptions) -> RayPool:
    """Start actors for all clients: as many as the cluster has room for, or as many as workers on this machine."""
    ray = load_ray()
    if not ray.is_initialized():
        address = options.ray_address or os.environ.get("RAY_ADDRESS")
        own: dict[str, object] = {"address": "local", "num_cpus": options.workers, "include_dashboard": False}
        if not address:
            os.environ["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), *(path for path in sys.path if path)])
        try:
            ray.init(configure_logging=False, log_to_driver=False, **({"address": address} if address else own))
        except (ConnectionError, ValueError) as error:
            raise InvalidInput("ray-address", address, "a Ray cluster that answers", f"{error}") from error
    return RayPool(ray, settings, cohort, start, gpus=options.gpus_per_actor)


class ClientActor:
    """The clients of one actor: an inline pool whose rows arrive with every order and leave with its answer."""

    def ask(self, order: str, *arguments: object) -> dict[str, Any]:
        """Return a method's result, or its error."""
        try:
            return {"answer": getattr(self, order)(*arguments)}
        except (InvalidInput, OSError) as error:
            return {"error": error_to_json(error)}

    def started(self) -> None:
        """Do nothing; answers once the actor has started."""

    def begin(self, cohort: Cohort, start: bytes, plan: LocalPlan, device: str) -> Float32Array:
        """Make these clients and return their rows."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "start.safetensors"
            path.write_bytes(start)
            buffers = [None] * len(cohort.clients)
            made = make_clients(cohort, cohort.clients, start=path, plan=plan, device=device, buffers=buffers)
            self._pool = InlinePool(made, read_spec(path))
        return self._given(range(len(made)))

    def measure(self, anchor: bytes, what: str) -> list[BnStats]:
        """Measure statistics under the anchor in a model file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "anchor.safetensors"
            path.write_bytes(anchor)
            return self._pool.measure(path, Measure(what))

    def train(
        self, rows: Float32Array, chosen: Sequence[int], round_no: int, what: str
    ) -> tuple[list[LocalReport], Float32Array]:
        """Train, and return the reports and the rows afterwards."""
        self._take(rows, chosen)
        return self._pool.train(round_no, Measure(what), chosen), self._given(chosen)

    def deliver(
        self, rows: Float32Array, chosen: Sequence[int], round_no: int, entering: Sequence[int]
    ) -> Float32Array:
        """Deliver, and return the rows after the algorithm has handled them."""
        self._take(rows, chosen)
        self._pool.deliver(round_no, chosen, entering)
        return self._given(chosen)

    def evaluate(
        self, rows: Float32Array, chosen: Sequence[int], split: str, model: str, round_no: int
    ) -> list[Evaluation]:
        """Return the scores of these rows' models."""
        self._take(rows, chosen)
        return self._pool.evaluate(split, model, round_no, chosen)

    def save(self, rows: Float32Array, chosen: Sequence[int], round_no: int) -> dict[str, bytes]:
        """Return the files of a saved round by name."""
        self._take(rows, chosen)
        with tempfile.TemporaryDirectory() as folder:
            top = Path(folder)
            self._pool.save(top, round_no)
            return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}

    def load(self, files: Mapping[str, bytes]) -> Float32Array:
        """Resume from these files and return the rows."""
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), files)
            self._pool.load(Path(folder))
        return self._given(range(len(self._pool.rows)))

    def _take(self, rows: Float32Array, chosen: Sequence[int]) -> None:
        live = self._pool.rows
        for place, row in zip(chosen, rows, strict=True):
            live[place][...] = row

    def _given(self, chosen: Sequence[int]) -> Float32Array:
        return _stacked(self._pool.rows, chosen)


class RayPool:
    """Actor i modulo their number holds client i; answers are returned in the cohort's order."""

    def __init__(
        self,
        ray: Any,  # noqa: ANN401 - a module that may not be installed
        settings: RunSettings,
        cohort: Cohort,
        start: Path,
        *,
        gpus: float,
    ) -> None:
        self._ray = ray
        self._names = cohort.names
        self.actors = self._started(gpus)
        model, plan, count = ray.put(start.read_bytes()), settings.local_plan(), len(self.actors)
        asked = [(cohort.part(cohort.clients[n::count]), model, plan, settings.device) for n in range(count)]
        self._rows: list[Float32Array] = [np.array(row) for row in self._merged(self._ask("begin", asked))]

    def _started(self, gpus: float) -> list[Any]:
        """Start as many actors as the cluster has room for; those that do not start in time are not used."""
        ray, there = self._ray, self._ray.cluster_resources()
        room = there.get("CPU", 1.0) if gpus == 0.0 else min(there.get("CPU", 1.0), there.get("GPU", 0.0) // gpus)
        if room < 1:
            raise InvalidInput("gpus-per-actor", gpus, f"at most the {there.get('GPU', 0.0):g} GPUs of the cluster")
        made = ray.remote(ClientActor).options(num_cpus=1, num_gpus=gpus, max_restarts=0)
        actors = {}
        for _ in range(min(int(room), len(self._names))):
            actor = made.remote()
            actors[actor.ask.remote("started")] = actor
        ready, late = ray.wait(list(actors), num_returns=len(actors), timeout=START_S)
        for one in late:
            ray.kill(actors[one])
        if not ready:
            raise InvalidInput("engine", "ray", f"an actor that starts within {START_S:g} s", "Is the cluster busy?")
        return [actors[one] for one in actors if one in ready]

    @property
    def rows(self) -> Sequence[Float32Array]:
        return self._rows

    def measure(self, anchor: Path, what: Measure) -> list[BnStats]:
        model = self._ray.put(anchor.read_bytes())
        return self._merged(self._ask("measure", [(model, str(what))] * len(self.actors)))

    def train(self, round_no: int, what: Measure, chosen: Chosen = None) -> list[LocalReport]:
        answers = self._ask_with_rows("train", chosen, round_no, str(what))
        self._store([rows for _, rows in answers], chosen)
        return self._merged([reports for reports, _ in answers], chosen)

    def deliver(self, round_no: int, chosen: Chosen = None, entering: Sequence[int] = ()) -> None:
        self._store(self._ask_with_rows("deliver", chosen, round_no, shares=self._shares(entering)), chosen)

    def evaluate(self, split: str, model: str, round_no: int, chosen: Chosen = None) -> list[Evaluation]:
        return self._merged(self._ask_with_rows("evaluate", chosen, split, model, round_no), chosen)

    def save(self, folder: Path, round_no: int) -> None:
        for files in self._ask_with_rows("save", None, round_no):
            _write(folder, files)

    def load(self, folder: Path) -> None:
        shares: list[tuple[Any, ...]] = []
        for number in range(len(self.actors)):
            names = [model_file_name(name) for name in self._names[number :: len(self.actors)]]
            paths = [folder / place / name for name in names for place in ("", "kept")]
            shares.append(({str(one.relative_to(folder)): one.read_bytes() for one in paths if one.is_file()},))
        self._store(self._ask("load", shares), None)

    def close(self) -> None:
        for actor in self.actors:
            self._ray.kill(actor)
        self.actors = []

    def _shares(self, chosen: Chosen) -> list[list[int]]:
        """Return for each actor the places of the chosen among its own clients."""
        actors = len(self.actors)
        places = range(len(self._names)) if chosen is None else chosen
        return [[place // actors for place in places if place % actors == number] for number in range(actors)]

    def _ask_with_rows(
        self, order: str, chosen: Chosen, *arguments: object, shares: Sequence[Sequence[int]] | None = None
    ) -> list[Any]:
        """Ask all actors, with the rows of the chosen. shares: one more argument, different for each actor."""
        actors, asked = len(self.actors), []
        for number, mine in enumerate(self._shares(chosen)):
            rows = _stacked(self._rows, [place * actors + number for place in mine])
            asked.append((rows, mine, *arguments, *(() if shares is None else (shares[number],))))
        return self._ask(order, asked)

    def _store(self, answers: Sequence[Sequence[Float32Array]], chosen: Chosen) -> None:
        places = range(len(self._names)) if chosen is None else chosen
        for place, row in zip(places, self._merged(answers, chosen), strict=True):
            self._rows[place][...] = row

    def _ask(self, order: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return every actor's answer; they work in parallel."""
        pending = [actor.ask.remote(order, *mine) for actor, mine in zip(self.actors, arguments, strict=True)]
        answers = self._ray.get(pending)
        for answer in answers:
            if "error" in answer:
                raise error_from_json(answer["error"])
        return [answer["answer"] for answer in answers]

    def _merged(self, answers: Sequence[Sequence[Any]], chosen: Chosen = None) -> list[Any]:
        """Return all answers in the cohort's order."""
        actors = len(self.actors)
        found = {
            place * actors + number: one
            for number, (mine, given) in enumerate(zip(self._shares(chosen), answers, strict=True))
            for place, one in zip(mine, given, strict=True)
        }
        return [found[place] for place in sorted(found)]


def _stacked(rows: Sequence[Float32Array], places: Sequence[int]) -> Float32Array:
    """Return a copy of these rows, (places, values)."""
    if not places:
        return np.empty((0, rows[0].size), dtype=np.float32)
    return np.stack([rows[place] for place in places])


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
