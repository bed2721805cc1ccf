"""Export a participant's last mixed weights from a run's folder as a safetensors file with its description.

All rows are mixed again together from the stored updates, so that the result is bit-identical to what was sent. The
folder is only read. Batch norm and other local tensors never reach the coordinator and are not in the file.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from coordinator.computing.jobs import Jobs
from coordinator.decisions.actions import Aggregate, Source
from coordinator.record.model_forms import ModelFile, ModelForms, Payload
from coordinator.record.store import Store
from coordinator.runs import StoredRun
from fedap_core.errors import InvalidInput, require_known
from fedap_core.model_spec import METADATA_KEY, ModelSpec
from protocol.tensors import Array, TensorSet


def export_weights(past: StoredRun, participant: str, out: Path) -> str:
    """Write the file atomically; return a sentence about it."""
    members = past.machine.state.members
    if past.config.sealed:
        fix = "Members write theirs with `fedap-participant export`."
        raise InvalidInput("folder", str(past.folder), "a run that is not sealed: its weights cannot be read here", fix)
    if not members:
        raise InvalidInput("participant", participant, "a member; nobody has joined this run yet")
    require_known("participant", participant, members)
    with tempfile.TemporaryDirectory(prefix="fedap-export-") as scratch:
        payload, what = _payload(past, participant, Store(past.folder, scratch=Path(scratch)))
        arrays = _arrays(payload)
    spec = past.spec
    shared = ModelSpec(
        model=spec.model,
        tensors=tuple(tensor for tensor in spec.tensors if tensor.name in arrays),
        head=spec.head,
        classes=spec.classes,
        input_shape=spec.input_shape,
        preprocessing=spec.preprocessing,
        seed=spec.seed,
    )
    notes = {"run": past.config.run, "participant": participant, "weights": what, "partial": "shared tensors only"}
    described = shared.to_metadata(notes)
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        temporary.write_bytes(save(dict(arrays), metadata={METADATA_KEY: described[METADATA_KEY]}))
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    return f"{out}: {what} of {participant}, {len(arrays)} shared tensors, {payload.layout.elements:,} values"


def _payload(past: StoredRun, participant: str, store: Store) -> tuple[Payload, str]:
    state, rules, config = past.machine.state, past.machine.rules, past.config
    anchor = ModelFile(config.anchor.file) if config.anchor.file is not None else None
    forms = ModelForms(
        initial=ModelFile(config.initial),
        anchor=anchor,
        strategy=rules.strategy,
        encoding=config.encoding,
        store=store,
    )
    order = state.members[participant].order
    ref = order.weights if order is not None else None
    if order is None or ref is None or ref.source is not Source.ROW or state.recipe is None:
        raise InvalidInput("participant", participant, "one that a round has been mixed for")
    recipe = state.recipe
    if ref.row not in recipe.receivers:
        raise InvalidInput("participant", participant, "one in the last mix of all members")
    jobs = Jobs(store=store, forms=forms, spec=past.spec, rules=rules)
    action = Aggregate(
        ticket=0, phase=recipe.phase, receivers=recipe.receivers, givers=recipe.givers, weights=recipe.weights
    )
    rows = dict(jobs.aggregate(action))
    return rows[ref.row], f"weights mixed after round {ref.row.round_no}"


def _arrays(payload: Payload) -> dict[str, Array]:
    data = memoryview(payload.read(0, payload.size_bytes))
    tensors = TensorSet(layout=payload.layout, encoding=payload.encoding, data=data, transfer=payload.transfer)
    return {name: np.ascontiguousarray(array) for name, array in tensors.arrays().items()}
