"""Measure how far one round of training on these data moves from an initial model. The trained model is discarded."""

from __future__ import annotations

import numpy as np

from fedap_core.arrays import FloatArray
from fedap_core.honest_step import MeasuredStep
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.parts import Part
from fedap_core.strategies import make_strategy
from participant.data.base import Dataset
from participant.decisions.layouts import shared_layout
from participant.record.model_file import module_of
from participant.training.home_data import HomeData
from participant.training.local import LocalClient, LocalPlan
from protocol.plan import USER_RECIPE, Sgd


def measure_step(dataset: Dataset, spec: ModelSpec, state: State, *, epochs: int) -> MeasuredStep:
    """Train on all samples with the default settings of a new run. The algorithm decides which parts are sent with the
    body, so the longest step over all choices counts, relative to the length of the same parts."""
    rate, momentum = float(USER_RECIPE["learning_rate"]), float(USER_RECIPE["momentum"])
    sgd = Sgd(learning_rate=rate, momentum=momentum, epochs=epochs)
    samples = HomeData(dataset=dataset).samples(np.arange(len(dataset.y)))
    plan = LocalPlan(strategy=make_strategy("fedavg"), sgd=sgd, seed=0)
    client = LocalClient("init", splits={"train": samples}, module=module_of(spec, state), spec=spec, plan=plan)
    before = client.shared.astype(np.float64)
    client.train(0)
    layout = shared_layout(spec, plan.strategy)
    starts, steps = layout.views(before), layout.views(client.shared - before)
    squares: dict[Part, FloatArray] = {part: np.zeros(2) for part in Part}
    for tensor in spec.tensors:
        if tensor.trainable:
            squares[tensor.part] += [np.vdot(of[tensor.name], of[tensor.name]) for of in (steps, starts)]
    body, head, norm = (squares[part] for part in (Part.BODY, Part.HEAD, Part.BATCH_NORM))
    lengths = [np.sqrt(travels) for travels in (body, body + head, body + norm, body + head + norm)]
    return MeasuredStep(
        lengths=max(float(step / max(start, 1.0)) for step, start in lengths),
        samples=len(dataset.y),
        learning_rate=sgd.learning_rate,
        momentum=sgd.momentum,
        epochs=sgd.epochs,
        batch_size=sgd.batch_size,
    )
