"""Models for tests of the coordinator: description and tensors made by numpy, written as an initial model file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.model_spec import ModelSpec
from fedap_core.parts import Part, TensorSpec
from fedap_core.preprocessing import Preprocessing
from protocol.membership import Hello
from protocol.tensors import Array, Layout, WireTensor, names_digest
from tests.support.machines import instance_of


@dataclass(frozen=True, kw_only=True)
class TinyModel:
    """A body of `body` values, one BN layer of `channels`, a head."""

    spec: ModelSpec
    tensors: dict[str, Array]

    def write(self, path: Path) -> Path:
        save_file(self.tensors, path, metadata=self.spec.to_metadata())
        return path

    def shared(self, home: Collection[Part]) -> Float32Array:
        """The initial model's shared tensors as one vector."""
        flat = [self.tensors[tensor.name].ravel() for tensor in self.spec.shared(home)]
        return np.concatenate(flat).astype(np.float32) if flat else np.empty(0, dtype=np.float32)

    def wire_layout(self, home: Collection[Part]) -> Layout:
        """The layout of what travels when `home` stays home."""
        return Layout(
            tuple(WireTensor(name=one.name, dtype="float32", shape=one.shape) for one in self.spec.shared(home))
        )

    def hello(self, name: str, *, samples: int = 100) -> Hello:
        layout = Layout(
            tuple(
                WireTensor(name=one.name, dtype="float32" if one.floating else "int64", shape=one.shape)
                for one in self.spec.tensors
            )
        )
        return Hello(
            name=name,
            instance=instance_of(name),
            software="test peer",
            run=None,
            model_layout=layout.digest,
            classes=names_digest(self.spec.classes),
            input_shape=self.spec.input_shape,
            preprocessing=self.spec.preprocessing.digest,
            train_samples=samples,
            test_samples=samples,
        )


def tiny_model(*, body: int = 1000, channels: int = 3, seed: int = 0) -> TinyModel:
    """Tensors in the order of a real state: body, BN (with its counter), head. None is called a variance, because
    `drift` moves all of them to either side of 0."""
    rng = np.random.default_rng(seed)

    def part(name: str, shape: tuple[int, ...], kind: Part, *, trainable: bool = True) -> TensorSpec:
        return TensorSpec(name=name, shape=shape, part=kind, trainable=trainable)

    specs = (
        part("body.weight", (body,), Part.BODY),
        part("bn.weight", (channels,), Part.BATCH_NORM),
        part("bn.bias", (channels,), Part.BATCH_NORM),
        part("bn.running_mean", (channels,), Part.BATCH_NORM, trainable=False),
        part("bn.running_spread", (channels,), Part.BATCH_NORM, trainable=False),
        TensorSpec(name="bn.num", shape=(), part=Part.BATCH_NORM, trainable=False, floating=False),
        part("head.weight", (2, channels), Part.HEAD),
        part("head.bias", (2,), Part.HEAD),
    )
    spec = ModelSpec(
        model="tiny",
        tensors=specs,
        head=("head",),
        classes=("no", "yes"),
        input_shape=(1, 4),
        preprocessing=Preprocessing(),
        seed=seed,
    )
    tensors: dict[str, Array] = {
        one.name: rng.standard_normal(one.shape, dtype=np.float32) if one.floating else np.array(0, dtype=np.int64)
        for one in specs
    }
    return TinyModel(spec=spec, tensors=tensors)


def moments(name: str, *, channels: int = 3, samples: int = 100, layer: str = "bn") -> BnStats:
    """Statistics that differ from member to member and not from time to time."""
    rng = np.random.default_rng(list(name.encode()))
    one = LayerMoments(
        name=layer, count=samples, mean=rng.standard_normal(channels), variance=rng.uniform(0.5, 2.0, channels)
    )
    return BnStats(samples=samples, layers=(one,))


def wire_moments(stats: BnStats) -> dict[str, Array]:
    """As `stats` carries them."""
    found: dict[str, Array] = {}
    for layer in stats.layers:
        found[f"{layer.name}/count"] = np.array(layer.count, dtype=np.int64)
        found[f"{layer.name}/mean"] = layer.mean
        found[f"{layer.name}/variance"] = layer.variance
    return found


def drift(name: str, round_no: int, weights: Float32Array) -> Float32Array:
    """«Training»: deterministic, and different for every member and round."""
    rng = np.random.default_rng([round_no, *name.encode()])
    step = rng.standard_normal(weights.size, dtype=np.float32)
    return np.asarray(weights * np.float32(0.9) + step * np.float32(0.1), dtype=np.float32)
