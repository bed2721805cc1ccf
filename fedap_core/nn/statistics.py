"""Measure what FedAP compares: exact moments of the inputs of BN layers or of the head, or BN running statistics.

Population moments over all values of a channel, accumulated in float64 batch by batch: the same batches give the same
bits, other batches of the same activations agree within 1e-10 (the float32 layers before may round another batch
differently). These functions return only moments, never activations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from fedap_core.arrays import FloatArray, IndexArray
from fedap_core.bn_stats import BnStats, LayerMoments
from fedap_core.errors import InvalidInput
from fedap_core.nn.batchnorm import BatchNorm, batch_norm_layers
from fedap_core.nn.heads import evaluating
from fedap_core.private_statistics import MeasuredLayer, UnitMoments, unit_vectors

MAX_COVARIANCE_CHANNELS = 512
"""A full covariance has channels squared values, and its square root takes time cubic in the channels."""


def batch_norm_inputs(model: nn.Module, batches: Iterable[Tensor], *, covariance: bool = False) -> BnStats:
    """Moments of the inputs of every BN layer over all batches, in eval mode. Layers are in registration order."""
    return _input_moments(model, dict(batch_norm_layers(model)), batches, covariance=covariance)


def head_inputs(model: nn.Module, head: str, batches: Iterable[Tensor], *, covariance: bool = False) -> BnStats:
    """Moments of the inputs of the classification layer (d-FedAP)."""
    return _input_moments(model, {head: model.get_submodule(head)}, batches, covariance=covariance)


def running_statistics(model: nn.Module, *, samples: int) -> BnStats:
    """The current running mean and variance of every BN layer (f-FedAP)."""
    layers = []
    for name, layer in batch_norm_layers(model):
        if layer.running_mean is None or layer.running_var is None:
            raise InvalidInput(
                f"layer {name}", "track_running_stats=False", "running statistics", "Use fedap instead of f-fedap."
            )
        mean, variance = _as_numpy(layer.running_mean), _as_numpy(layer.running_var)
        layers.append(LayerMoments(name=name, count=samples, mean=mean, variance=variance))
    return BnStats(samples=samples, layers=tuple(layers))


def unit_inputs(
    model: nn.Module, batches: Iterable[Tensor], units: IndexArray, *, head: str | None = None
) -> UnitMoments:
    """The channel means and mean squares of the BN layers' inputs, averaged by unit. units: (n,), the unit of each
    sample, in order. head: measure this classification layer instead.

    They are relative to the layer's running statistics, which come with the anchor, not from these data.
    """
    layers: dict[str, nn.Module] = dict(batch_norm_layers(model)) if head is None else {head: model.get_submodule(head)}
    seen: dict[str, list[FloatArray]] = {name: [] for name in layers}
    positions: dict[str, int] = {}

    def note(name: str, layer: nn.Module, inputs: Tensor) -> None:
        values = inputs.to(torch.float64)
        values = values.movedim(-1, 1) if isinstance(layer, nn.Linear) else values
        values = values.flatten(2) if values.dim() > 2 else values[:, :, None]
        positions[name] = values.shape[2]
        seen[name].append(_as_numpy(torch.cat((values.mean(dim=2), values.square().mean(dim=2)), dim=1)))

    _forward(model, layers, batches, note)
    of_samples = np.concatenate([np.concatenate(parts) for parts in seen.values()], axis=1)
    references, scales = zip(
        *(_public(layer, parts[0].shape[1]) for layer, parts in zip(layers.values(), seen.values(), strict=True)),
        strict=True,
    )
    reference, scale = np.concatenate(references), np.concatenate(scales)
    measured = tuple(
        MeasuredLayer(name=name, channels=parts[0].shape[1] // 2, positions=positions[name])
        for name, parts in seen.items()
    )
    vectors = unit_vectors((of_samples - reference) / scale, units)
    return UnitMoments(layers=measured, vectors=vectors, reference=reference, scale=scale, samples=len(of_samples))


def _input_moments(
    model: nn.Module, layers: Mapping[str, nn.Module], batches: Iterable[Tensor], *, covariance: bool
) -> BnStats:
    seen: dict[str, LayerMoments] = {}

    def note(name: str, layer: nn.Module, inputs: Tensor) -> None:
        moments = _moments(name, _channels_first(layer, inputs), covariance=covariance)
        seen[name] = seen[name].merge(moments) if name in seen else moments

    samples = _forward(model, layers, batches, note)
    return BnStats(samples=samples, layers=tuple(seen[name] for name in layers))


def _forward(
    model: nn.Module,
    layers: Mapping[str, nn.Module],
    batches: Iterable[Tensor],
    note: Callable[[str, nn.Module, Tensor], None],
) -> int:
    """Pass the inputs of the layers to `note`, batch by batch, in eval mode; return the number of samples."""
    reached: set[str] = set()

    def show(name: str, layer: nn.Module, inputs: Tensor) -> None:
        reached.add(name)
        note(name, layer, inputs)

    handles = [
        layer.register_forward_pre_hook(
            lambda module, args, named, name=name: show(name, module, (*args, *named.values())[0]), with_kwargs=True
        )
        for name, layer in layers.items()
    ]
    samples = 0
    try:
        with evaluating(model), torch.no_grad():
            for batch in batches:
                model(batch)
                samples += len(batch)
    finally:
        for handle in handles:
            handle.remove()
    if samples == 0:
        raise InvalidInput("training data", "no samples", "at least one sample to measure")
    for name in layers:
        if name not in reached:
            raise InvalidInput(f"layer {name}", "never reached by a forward pass", "a layer that the model uses")
    return samples


def _public(layer: nn.Module, width: int) -> tuple[FloatArray, FloatArray]:
    """Return reference and scale of means and mean squares, both (width,), from the layer's running statistics; 0 and 1
    if it has none."""
    if not isinstance(layer, BatchNorm) or layer.running_mean is None or layer.running_var is None:
        return np.zeros(width), np.ones(width)
    mean, variance = _as_numpy(layer.running_mean), _as_numpy(layer.running_var) + layer.eps
    reference = np.concatenate((mean, variance + np.square(mean)))
    return reference, np.concatenate((np.sqrt(variance), variance))


def _channels_first(layer: nn.Module, inputs: Tensor) -> Tensor:
    """(N, C, ...) -> (C, values); a Linear layer has its channels last."""
    channel_dim = inputs.dim() - 1 if isinstance(layer, nn.Linear) else 1
    return inputs.movedim(channel_dim, 0).flatten(1)


def _moments(name: str, values: Tensor, *, covariance: bool) -> LayerMoments:
    if covariance and len(values) > MAX_COVARIANCE_CHANNELS:
        raise InvalidInput(
            f"layer {name}", f"{len(values)} channels", f"at most {MAX_COVARIANCE_CHANNELS} for a full covariance",
            "Use the diagonal distance.",
        )  # fmt: skip
    values = values.to(torch.float64)
    mean = values.mean(dim=1)
    centred = values - mean[:, None]
    count = values.shape[1]
    return LayerMoments(
        name=name,
        count=count,
        mean=_as_numpy(mean),
        variance=_as_numpy(centred.square().mean(dim=1)),
        covariance=_as_numpy(centred @ centred.T / count) if covariance else None,
    )


def _as_numpy(tensor: Tensor) -> FloatArray:
    array: FloatArray = tensor.detach().to("cpu", torch.float64).numpy().copy()
    return array
