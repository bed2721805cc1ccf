"""Small federations on made-up data, run by the real engine: settings, clients, runs, and the bits they leave behind.

Sizes are chosen so that a round of three clients takes hundredths of a second; nothing here stands in for real code.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from participant.record.model_file import read_model
from scripts.engines.base import EngineOptions
from scripts.engines.inline import run_inline
from scripts.run.cohort import Cohort, make_cohort
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings

Bits = dict[str, dict[str, bytes]]
"""Client -> tensor -> its bytes."""

DATA_OPTIONS = {"samples": "240", "classes": "3", "sites": "3", "shape": "1x16x16"}
CLIENTS = 3
QUICK_ANCHOR = {"share": 0.5, "epochs": 1}

MODELS = {"whole": "lenet5", "in slices": "tests.support.models:make_wide"}
"""How a model travels -> one that does so: 0.2 MB fit into a message, 10.7 MB do not."""

BOTH_SIZES = ("whole", pytest.param("in slices", marks=pytest.mark.slow))
"""Parameters of a test that runs with either kind of model, the large one only among the slow tests."""


def small_run(
    algorithm: str, *, rounds: int = 3, cohort: Mapping[str, object] | None = None, **others: object
) -> RunSettings:
    """Three clients with 40 training and 40 test samples each."""
    described: dict[str, object] = {
        "cohort": {
            "data": "synthetic",
            "data_options": DATA_OPTIONS,
            "partition": "iid",
            "clients": CLIENTS,
            **(cohort or {}),
        },
        "model": "lenet5",
        "algorithm": algorithm,
        "rounds": rounds,
        "batch_size": 16,
        "learning_rate": 0.05,
        "anchor": QUICK_ANCHOR,
        **others,
    }
    return RunSettings.model_validate(described)


def clients_of(settings: RunSettings) -> Cohort:
    """The cohort that the lab would make for these settings."""
    return make_cohort(settings.cohort, settings.seed)


def run_small(root: Path, settings: RunSettings, *, workers: int = 1, cohort: Cohort | None = None) -> RunFolder:
    """Run what is missing under `root`."""
    return run_inline(settings, cohort or clients_of(settings), EngineOptions(root=root, workers=workers))


def rounds_run(root: Path, settings: RunSettings) -> list[int]:
    """Run what is missing; the numbers of the rounds that were run for it."""
    numbers: list[int] = []
    options = EngineOptions(root=root, on_round=lambda number, _accuracy: numbers.append(number))
    run_inline(settings, clients_of(settings), options)
    return numbers


def model_bits(folder: RunFolder, round_no: int | None = None) -> Bits:
    """Every tensor of every personalised model of a round, the last one by default."""
    chosen = folder.models(folder.settings.rounds - 1 if round_no is None else round_no)
    return {path.stem: tensor_bits(path) for path in sorted(chosen.glob("*.safetensors"))}


def tensor_bits(path: Path) -> dict[str, bytes]:
    """The tensors of one model file."""
    return {name: tensor.numpy().tobytes() for name, tensor in read_model(path)[1].items()}


def numbers_of(folder: RunFolder) -> list[dict[str, object]]:
    """The lines of a run without what may differ between equal runs: times, and where it was cut into two calls."""
    records = []
    for record in folder.rounds():
        test = {key: value for key, value in record["test"].items() if key != "confusion"}
        records.append({**record, "seconds": None, "test": test})
    return records


def group_is_alive(group: int) -> bool:
    """Whether any process of that group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(
    condition: Callable[[], bool], what: str, *, deadline_s: float = 180.0, evidence: Callable[[], str] = str
) -> None:
    """Poll until the condition holds; past the deadline, fail and say what was waited for. evidence: what else to say
    then."""
    pause = threading.Event()
    ends = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > ends:
            raise AssertionError(f"waited {deadline_s:g} s in vain for {what}\n{evidence()}".rstrip())
        pause.wait(0.01)


def lab_arguments(out: Path, algorithms: str, *, rounds: int, more: Sequence[str] = ()) -> list[str]:
    """The command line of `small_run`, pooled anchors left at their defaults."""
    options = [part for key, value in DATA_OPTIONS.items() for part in ("--data-option", f"{key}={value}")]
    fixed = ["--partition", "iid", "--model", "lenet5", "--batch-size", "16", "--learning-rate", "0.05"]
    return [
        *("compare", "--data", "synthetic", *options, "--clients", str(CLIENTS), *fixed),
        *("--algorithms", algorithms, "--rounds", str(rounds), "--out", str(out), *more),
    ]


@dataclass(frozen=True, kw_only=True)
class CommandOutcome:
    """What a command left on a terminal."""

    code: int
    out: str
    complaint: str

    @property
    def is_one_clear_line(self) -> bool:
        """Exit code 2 and a single line that opens with `error:`, no traceback."""
        lines = self.complaint.splitlines()
        return self.code == 2 and len(lines) == 1 and lines[0].startswith("error: ")


def run_command(main: Callable[[], None], *arguments: str) -> CommandOutcome:
    """A console command in this process, with its real entry point."""
    out, complaint, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["command", *arguments]
    code = 0
    try:
        with redirect_stdout(out), redirect_stderr(complaint):
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    finally:
        sys.argv = before
    return CommandOutcome(code=code, out=out.getvalue(), complaint=complaint.getvalue())
