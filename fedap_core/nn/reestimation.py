"""Re-estimate the running statistics of batch-norm layers from local data, for a participant that joins a run late.

Its BN layers are local and still those of the initial model, while the weights around them have been trained for
rounds. One pass over the training data makes them fit. Parameters and counters are unchanged.
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

    During the pass, batches are normalised by their own statistics, as in training, because the old running ones are
    wrong; other layers are in eval mode. The moments are exact over all values, whatever the batch sizes. The variance
    is stored unbiased, as in torch. A layer that is never reached, or tracks nothing, is unchanged.
    """
    layers = {name: layer for name, layer in batch_norm_layers(model) if layer.track_running_stats}
    seen: dict[str, LayerMoments] = {}

    def note(name: str, inputs: Tensor) -> None:
        values = inputs.detach().movedim(1, 0).flatten(1).cpu()
        if values.dtype != torch.float32:  # numpy does not know every type; float32 is widened a few channels at a time
            values = values.to(torch.float64)
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
                layer.training, layer.momentum, layer.num_batches_tracked = True, 0.0, None  # no counting, no update
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
