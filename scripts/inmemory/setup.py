"""Describes a federation in memory: names, rounds, mode and payload size, and the plan and rules that follow.

A model is one vector of float32. It fits one message or, if sliced, is larger than a slice. Nothing here acts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coordinator.decisions.rules import MemberRules, ModelRules, PaceRules, Rules
from fedap_core.arrays import Float32Array
from fedap_core.strategies import make_strategy
from protocol.limits import SLICE_BYTES
from protocol.messages import Compute, Hello, Plan, Sgd
from protocol.tensors import Layout, TensorSet, WireTensor

RUN = "run-1"
SAMPLES = 100
HEARTBEAT_S = 1.0
DEAD_AFTER_S = 5.0
DIGEST = "ab" * 16


@dataclass(frozen=True)
class Setup:
    """One federation. sliced: payloads take two slices, otherwise they fit one message."""

    members: int = 2
    rounds: int = 2
    continuous: bool = False
    sliced: bool = False
    algorithm: str = "fedavg"

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple("abcdefgh"[: self.members])

    @cached_property
    def layout(self) -> Layout:
        values = (SLICE_BYTES + SLICE_BYTES // 2 if self.sliced else SLICE_BYTES // 2) // 4
        return Layout((WireTensor(name="w", dtype="float32", shape=(values,)),))

    @cached_property
    def initial(self) -> Float32Array:
        values: Float32Array = np.arange(self.layout.elements, dtype=np.float32)
        return values

    @cached_property
    def plan(self) -> Plan:
        return Plan(
            strategy=self.algorithm,
            options={},
            mode="continuous" if self.continuous else "barrier",
            rounds=self.rounds,
            seed=1,
            split="paper",
            encoding="f32",
            model_layout=self.layout.digest,
            shared_layout=self.layout.digest,
            sgd=Sgd(learning_rate=0.01, batch_size=32),
            compute=Compute(),
        )

    @cached_property
    def rules(self) -> Rules:
        """Rules without deadlines: a run that ends has received all members' reports."""
        return Rules(
            run=RUN,
            strategy=make_strategy(self.algorithm, {}),
            rounds=self.rounds,
            continuous=self.continuous,
            model=ModelRules(
                model_layout=self.layout.digest, classes=DIGEST, input_shape=(1, 8, 8), preprocessing=DIGEST
            ),
            members=MemberRules(at_least=self.members, enrolment_s=0.0),
            pace=PaceRules(
                heartbeat_s=HEARTBEAT_S,
                dead_after_s=DEAD_AFTER_S,
                quorum=self.members,
                deadline_s=math.inf,
                linger_s=60.0,
            ),
        )

    def hello(self, name: str, run: str | None, life: int) -> Hello:
        return Hello(
            name=name,
            software="explore",
            instance=name.encode().hex() * 16,
            process=process_of(name, life),
            run=run,
            model_layout=self.layout.digest,
            classes=DIGEST,
            input_shape=(1, 8, 8),
            preprocessing=DIGEST,
            train_samples=SAMPLES,
            test_samples=SAMPLES,
        )

    def weights(self, values: Float32Array) -> TensorSet:
        return TensorSet.of_flat(self.layout, values)


def process_of(name: str, life: int) -> str:
    """Return the number of a participant's process; `life_of` is the inverse."""
    return f"{name.encode().hex()}{life:030x}"


def life_of(process: str) -> str:
    """Return name!life."""
    return f"{bytes.fromhex(process[:2]).decode()}!{int(process[2:], 16)}"


MOMENTS = TensorSet.of({"n/count": np.array(SAMPLES), "n/mean": np.zeros(1), "n/variance": np.ones(1)})
"""Statistics of one layer with one channel."""
