"""This project's own training, for worker processes: the whole inline engine, and one client's step or
re-estimation alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from fedap_core.model_spec import ModelSpec
from fedap_core.nn.reestimation import reestimate_batch_norm
from fedap_core.nn.state import State
from participant.record.model_file import make_initial, module_of
from participant.training.local import LocalClient, use_threads
from scripts.bench.job import BenchJob
from scripts.bench.plain import plain_loop
from scripts.bench.workers import Body, Gate, loop_of
from scripts.engines.base import EngineOptions
from scripts.engines.inline import run_inline


def inline_body(job: BenchJob, folder: Path, *, workers: int = 1) -> Body:
    """Run the inline engine as `fedap-lab compare` does, including its records; it pauses between orders of rounds."""

    def body(gate: Gate) -> None:
        def on_round(_round_no: int, _accuracy: float | None) -> None:
            gate.passed()

        with tempfile.TemporaryDirectory(dir=folder) as root:
            options = EngineOptions(root=Path(root), workers=workers, keep_models=False, on_round=on_round)
            run_inline(job.settings, job.cohort, options)

    return body


def same_model_body(job: BenchJob) -> Body:
    """Run the plain loop over this project's own model: any remaining difference is due to the engine."""

    def make() -> Callable[[], None]:
        spec, state = _initial(job)
        return plain_loop(job, job.cohort.clients, lambda: module_of(spec, state))

    return loop_of(make)


def client_body(job: BenchJob) -> Body:
    """Run only the local training of the job's clients, one after the other."""

    return loop_of(lambda: _Clients(job))


def reestimation_body(job: BenchJob) -> Body:
    """Only re-estimate batch norm from every client's training samples, as before a model is handed over."""

    def make() -> Callable[[], None]:
        use_threads(1)
        spec, state = _initial(job)
        module, size = module_of(spec, state), job.settings.local_plan().evaluation_batch
        samples = [job.cohort.samples(client, torch.device("cpu"))["train"] for client in job.cohort.clients]

        def one_round() -> None:
            for own in samples:
                reestimate_batch_norm(module, own.inputs(size))

        return one_round

    return loop_of(make)


def _initial(job: BenchJob) -> tuple[ModelSpec, State]:
    data = job.cohort.data
    return make_initial(
        job.settings.model,
        input_shape=data.input_shape,
        classes=data.classes,
        preprocessing=data.preprocessing,
        seed=0,
    )


class _Clients:
    """Trains one epoch of every client; called once per round."""

    def __init__(self, job: BenchJob) -> None:
        use_threads(1)
        settings = job.settings
        spec, state = _initial(job)
        self._clients = [
            LocalClient(
                client.name,
                splits=job.cohort.samples(client, torch.device("cpu")),
                module=module_of(spec, state),
                spec=spec,
                plan=settings.local_plan(),
            )
            for client in job.cohort.clients
        ]
        self._round_no = 0

    def __call__(self) -> None:
        for client in self._clients:
            client.train(self._round_no)
        self._round_no += 1
