"""Whole runs of real processes: the inline engine's models to the bit, and what leaves is what `check` lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from participant.cli import main
from participant.config import DataSettings
from participant.joining import open_home
from participant.privacy import Leaving, what_leaves
from participant.privacy import subject_of as subject_for
from participant.wire.sent_log import tensor_names
from protocol.messages import Message
from protocol.tensors import TensorSet
from tests.support.cohorts import Bits, run_command, small_run, wait_until
from tests.support.conductor import Conductor
from tests.support.players import Reference, final_bits, plan_of, players, run_reference

ALGORITHMS = [
    "fedap",
    "d-fedap",
    "f-fedap",
    "fedper",
    "base",
    "scaffold",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("fedavg", "fedprox", "fedbn", "feddbe")),
]
"""The paper's eight, and two that send tensors beside the weights. Those without a list of their own kind are slow:
FedProx sends what FedAvg does, FedBN what FedAP does after its statistics, FedAvg is the plainest of all, and FedDBE
sends a tensor as SCAFFOLD does."""


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A whole run of three processes: what they should end with, what they did end with, what one of them said."""

    folder: Path
    reference: Reference
    bits: Bits
    received: list[Message]
    recorded: list[Mapping[str, object]]


def whole_run(folder: Path, algorithm: str, *more: str) -> FinishedRun:
    reference = run_reference(folder / "inline", small_run(algorithm))
    conductor = Conductor(
        plan=plan_of(reference), members=reference.names, initial=reference.initial, anchor=reference.anchor
    )
    with conductor, players(folder, reference, conductor.endpoint, *more) as made:
        wait_until(
            lambda: conductor.fault is not None or all(player.ended() is not None for player in made.values()),
            "the run to end",
            deadline_s=240,
        )
        logs = {name: player.log() for name, player in made.items()}
        assert {name: player.ended() for name, player in made.items()} == dict.fromkeys(made, 0), logs
    received = [message for who, message in conductor.received if who == "c1"]
    return FinishedRun(
        folder=folder, reference=reference, bits=final_bits(made), received=received, recorded=made["c1"].sent()
    )


@pytest.fixture(scope="module", params=ALGORITHMS)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return whole_run(tmp_path_factory.mktemp(str(request.param)), str(request.param))


def listed(finished: FinishedRun, *share: str) -> tuple[Leaving, ...]:
    """The list that `check` would print for the member whose words were received."""
    shard, model = finished.folder / "c1.npz", finished.reference.initial
    described = {"data": str(shard), "model_file": model, "name": "c1", "share": share, "validation": 0.0}
    settings = DataSettings.model_validate(described)
    algorithm = finished.reference.settings.algorithm
    subject = subject_for(
        open_home(settings), settings, algorithm=algorithm, options={}, rounds=3, warmup_rounds=0, encoding="f32"
    )
    return what_leaves(subject)


def carried(message: Message) -> dict[str, TensorSet]:
    values = {name: getattr(message, name) for name, _ in message.CONTRACTS}
    return {name: value for name, value in values.items() if isinstance(value, TensorSet)}


def is_listed(message: Message, entry: Leaving) -> bool:
    """The same kind, no field more, and the same tensors to the byte; class tables need an evaluation to report."""
    fields = {name for name, _ in message.CONTRACTS if getattr(message, name) is not None}
    tensors = carried(message)
    expected = dict(entry.tensors)
    if "tables" not in tensors:
        expected.pop("tables", None)
    same = {name: value.layout for name, value in tensors.items()} == expected
    return entry.kind == message.KIND and fields <= set(entry.fields) and same


def test_networked_run_ends_with_the_inline_engines_models(finished: FinishedRun) -> None:
    assert finished.bits == finished.reference.bits


def test_every_message_on_the_wire_is_in_the_list(finished: FinishedRun) -> None:
    entries = listed(finished)
    unlisted = [message for message in finished.received if not any(is_listed(message, entry) for entry in entries)]
    assert unlisted == []
    promised = {entry.kind for entry in entries if entry.tensor_names}
    never_sent = promised - {message.KIND for message in finished.received}
    assert never_sent == set(), "the list promises more than is true"


def test_participant_itself_has_recorded_everything_it_sent(finished: FinishedRun) -> None:
    """A last heartbeat may be on its way when the coordinator stops listening."""
    received = [(message.KIND, tensor_names(message)) for message in finished.received]
    recorded = [(line["kind"], line["names"]) for line in finished.recorded]
    assert recorded[: len(received)] == received
    assert {kind for kind, _ in recorded[len(received) :]} <= {"heartbeat"}


def test_class_tables_leave_only_when_shared(tmp_path: Path) -> None:
    finished = whole_run(tmp_path, "fedper", "--share", "class_counts")
    entries = listed(finished, "class_counts")
    assert all(any(is_listed(message, entry) for entry in entries) for message in finished.received)
    names = {name for message in finished.received for name in tensor_names(message)}
    assert {"class_counts", "confusion/test"} <= names
    assert all("confusion" not in name for entry in listed(finished) for name in entry.tensor_names)


def test_check_prints_the_list_and_no_batch_norm_leaves_under_fedap(tmp_path: Path) -> None:
    """LeNet-5 for 3 classes: what stays home are the two BN layers, 4 tensors and a counter each."""
    options = ["--data-option", "samples=120", "--data-option", "classes=3"]
    init = run_command(main, "init", "--data", "synthetic", "--model", "lenet5", "--out", str(tmp_path / "m"), *options)
    assert init.code == 0, init.complaint
    arguments = ["--data", "synthetic", "--model-file", str(tmp_path / "m"), *options, "--rounds", "3"]
    fedap = run_command(main, "check", "--algorithm", "fedap", *arguments)
    assert fedap.code == 0, fedap.complaint
    (home,) = [line for line in fedap.out.splitlines() if line.startswith("stays local")]
    assert "bn1.weight" in home
    (update,) = [line for line in fedap.out.splitlines() if line.lstrip().startswith("update")]
    assert "bn1" not in update
    fedavg = run_command(main, "check", "--algorithm", "fedavg", *arguments)
    assert "bn1.weight" in next(line for line in fedavg.out.splitlines() if line.lstrip().startswith("update"))
