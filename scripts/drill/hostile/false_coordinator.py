"""Defines a hostile scenario, and judges it once it has been played (`scripted_coordinator`).

The scenarios themselves are in `coordinator` and the files it imports. To pass, everything that left the participant
must be in the list that `check` prints, no module may have been imported, and its folder holds a sound model or none.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedap_core.errors import InvalidInput
from participant.config import DataSettings
from participant.decisions.actions import End
from participant.privacy import Leaving, subject_of, what_leaves
from participant.record.model_file import read_model
from participant.wire.sent_log import tensor_names
from protocol.codec import encode, offers
from protocol.errors import ProtocolError
from protocol.messages import Message, Slice
from protocol.tensors import TensorSet
from scripts.drill.hostile.scripted_coordinator import FORBIDDEN_MODULE, NAME, ROUNDS, FalseCoordinator, ScenarioData

LARGEST_SOUND = 1e3
"""Values of a small model trained for a round or two are far below this."""

Play = Callable[[FalseCoordinator], None]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One thing that a coordinator may try.

    does, outcome: sentences for the published list. code: the participant's exit code. error_code: that of its `error`
    answer, if it answers. words: part of the reason with which it ends. updates: how many may leave at most; measures:
    how many statistics. algorithm: what its operator has agreed to; settings: further options of the operator.
    """

    name: str
    does: str
    outcome: str
    play: Play
    code: int = 0
    error_code: str = ""
    words: str = ""
    updates: int = 1
    measures: int = 0
    algorithm: str = "fedap"
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ScenarioOutcome:
    """Everything observed in a scenario."""

    scenario: Scenario
    ends: tuple[End | BaseException, ...]
    received: tuple[Message, ...]
    sent: tuple[Mapping[str, object], ...]
    files: tuple[str, ...]
    faults: tuple[str, ...]
    """Why the scenario failed; empty if it passed."""


def perform(scenario: Scenario, data: ScenarioData, folder: Path) -> ScenarioOutcome:
    """Play one scenario against a fresh participant and judge the outcome."""
    payload = folder / "importable"
    payload.mkdir(parents=True)
    (payload / f"{FORBIDDEN_MODULE}.py").write_text("from fedap_core.strategies.fedap import FedAp\n")
    sys.path.insert(0, str(payload))
    try:
        with FalseCoordinator(data, folder) as session:
            session.start(**{"algorithm": scenario.algorithm, **scenario.settings})
            scenario.play(session)
            session.receive_the_end()
            imported = FORBIDDEN_MODULE in sys.modules
    finally:
        sys.path.remove(str(payload))
        sys.modules.pop(FORBIDDEN_MODULE, None)
    record = session.state / "sent.jsonl"
    sent = tuple(json.loads(line) for line in record.read_text(encoding="utf-8").splitlines())
    files = tuple(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()))
    outcome = ScenarioOutcome(
        scenario=scenario, ends=tuple(session.ends), received=tuple(session.received), sent=sent, files=files, faults=()
    )
    faults = [*_end_faults(outcome), *_leak_faults(outcome, data), *_change_faults(outcome, session.state, payload)]
    if imported:
        faults.append("a module that the plan named was imported")
    return replace(outcome, faults=tuple(faults))


def _end_faults(outcome: ScenarioOutcome) -> list[str]:
    scenario, last = outcome.scenario, outcome.ends[-1] if outcome.ends else None
    if isinstance(last, InvalidInput | ProtocolError):
        return [f"it ended with an exception: {last}"]
    if not isinstance(last, End):
        return [f"it did not end: {last!r}"]
    faults = []
    if last.code != scenario.code:
        faults.append(f"it ended with {last.code}, {last.reason}; expected {scenario.code}")
    if scenario.words not in last.reason:
        faults.append(f"it ended because of «{last.reason}»; expected words: {scenario.words}")
    codes = {getattr(message, "code", "") for message in outcome.received if message.KIND == "error"}
    if scenario.error_code and scenario.error_code not in codes:
        faults.append(f"it answered with errors {sorted(codes)}; expected {scenario.error_code}")
    return faults


def _leak_faults(outcome: ScenarioOutcome, data: ScenarioData) -> list[str]:
    """Compare what left, on the wire and in the participant's own record, with the list that `check` prints."""
    described = {"data": "synthetic", "data_options": dict(data.data_options), "model_file": data.initial, "name": NAME}
    settings = DataSettings.model_validate({**described, "validation": 0.0})
    subject = subject_of(
        data.home, settings, algorithm=outcome.scenario.algorithm, options={}, rounds=ROUNDS, warmup_rounds=0,
        encoding="f32",
    )  # fmt: skip
    listed = what_leaves(subject)
    faults = [
        f"{message.KIND} with {sorted(tensor_names(message))} left; `check` does not list it"
        for message in outcome.received
        if not any(is_listed(message, entry) for entry in listed)
    ]
    offered = {one.transfer: one.size_bytes for message in outcome.received for one in offers(message)}
    faults += [
        f"a slice at {one.offset} of {one.transfer} left, which no message offered"
        for one in outcome.received
        if isinstance(one, Slice) and one.offset + one.data.nbytes > offered.get(one.transfer, 0)
    ]
    allowed = {(entry.kind, entry.tensor_names) for entry in listed}
    recorded = [(str(line["kind"]), tuple(_names(line["names"]))) for line in outcome.sent]
    faults += [f"recorded as sent: {kind} with {names}" for kind, names in recorded if (kind, names) not in allowed]
    for kind, most in (("update", outcome.scenario.updates), ("stats", outcome.scenario.measures)):
        distinct = {bytes(b"".join(bytes(f) for f in encode(one))) for one in outcome.received if kind == one.KIND}
        if len(distinct) > most:
            faults.append(f"{len(distinct)} different {kind} left, expected at most {most}")
    return faults


def _change_faults(outcome: ScenarioOutcome, state: Path, payload: Path) -> list[str]:
    """Find files outside the state folder, and unsound models in it."""
    inside = (state.name, payload.name)
    faults = [f"wrote {name}" for name in outcome.files if Path(name).parts[0] not in inside]
    for path in state.rglob("*.safetensors"):
        try:
            _, tensors, _ = read_model(path)
        except InvalidInput as error:
            faults.append(f"kept a model that is not sound: {error}")
            continue
        largest = max(float(tensor.abs().max()) for name, tensor in tensors.items() if "/" not in name)
        if not math.isfinite(largest) or largest > LARGEST_SOUND:
            faults.append(f"{path.name} holds a value of size {largest:g}")
    return faults


def is_listed(message: Message, entry: Leaving) -> bool:
    """Whether kind and tensor layouts match and there is no extra field; class tables may be missing."""
    values = {name: getattr(message, name) for name, _ in message.CONTRACTS}
    tensors = {name: value for name, value in values.items() if isinstance(value, TensorSet)}
    expected = dict(entry.tensors)
    if "tables" not in tensors:
        expected.pop("tables", None)
    same = {name: value.layout for name, value in tensors.items()} == expected
    present = {name for name, value in values.items() if value is not None}
    return entry.kind == message.KIND and present <= set(entry.fields) and same


def _names(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
