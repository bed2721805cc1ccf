"""Gives batch-norm layers the running statistics of somebody's own data: for a participant that enters a run late.

Its layers stay home and still know only the initial model, while the weights around them have been trained for rounds.
One pass over the training data makes them fit. Parameters and counters are left alone; knows no federation.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from fedap_core.bn_stats import LayerMoments
from fedap_core.errors import InvalidInput
from fedap_core.nn.batchnorm import BatchNorm, batch_norm_layers
from fedap_core.nn.heads import evaluating


def reestimate_batch_norm(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """Set the running mean and variance of every BN layer to those of its inputs over all batches, in place.

    Batches are normalised by their own statistics on the way, as in training, because the old running ones are what is
    wrong; other layers are in eval mode. The moments are exact over all values, whatever the sizes of the batches. The
    variance is stored unbiased, as torch does. A layer that is never reached, or tracks nothing, stays as it was.
    """
    layers = {name: layer for name, layer in batch_norm_layers(model) if layer.track_running_stats}
    seen: dict[str, LayerMoments] = {}

    def note(name: str, inputs: Tensor) -> None:
        values = inputs.detach().movedim(1, 0).flatten(1).to("cpu", torch.float64)
        moments = LayerMoments.of(name, values.numpy())
        seen[name] = seen[name].merge(moments) if name in seen else moments

    handles = [
        layer.register_forward_pre_hook(lambda _layer, args, name=name: note(name, args[0]))
        for name, layer in layers.items()
    ]
    kept = {name: (layer.momentum, layer.num_batches_tracked) for name, layer in layers.items()}
    try:
        with evaluating(model), torch.no_grad():
            for layer in layers.values():
                layer.training, layer.momentum, layer.num_batches_tracked = True, 0.0, None  # counts and moves nothing
            for batch in batches:
                model(batch)
    finally:
        for handle in handles:
            handle.remove()
        for name, layer in layers.items():
            layer.momentum, layer.num_batches_tracked = kept[name]
    if not seen and layers:
        raise InvalidInput("training data", "no samples", "at least one batch to estimate from")
    for name, moments in seen.items():
        _write(layers[name], moments)


@torch.no_grad()
def _write(layer: BatchNorm, moments: LayerMoments) -> None:
    if layer.running_mean is None or layer.running_var is None:
        return
    unbiased = moments.variance * (moments.count / max(moments.count - 1, 1))
    layer.running_mean.copy_(torch.tensor(moments.mean))
    layer.running_var.copy_(torch.tensor(unbiased))
