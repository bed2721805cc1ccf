"""How good a model is on given samples: counts and a confusion matrix, in eval mode, in large batches."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation
from fedap_core.nn.heads import evaluating
from fedap_core.nn.samples import Samples

EVALUATION_BATCH = 256
"""Large enough to hide the cost of a call, small enough that LeNet-5's activations stay in the cache."""


def evaluate(module: nn.Module, samples: Samples, *, classes: int, batch_size: int = EVALUATION_BATCH) -> Evaluation:
    """Loss, accuracy and confusion over all samples; the module's mode and tensors are left as they were."""
    confusion = torch.zeros(classes * classes, dtype=torch.int64, device=samples.y.device)
    loss = 0.0
    with evaluating(module), torch.no_grad():
        for inputs, targets in samples.batches(batch_size):
            logits = module(inputs)
            if logits.shape != (len(targets), classes):
                raise InvalidInput("model output", tuple(logits.shape), f"one logit for each of {classes} classes")
            loss += float(F.cross_entropy(logits, targets, reduction="sum"))
            confusion += torch.bincount(targets * classes + logits.argmax(dim=1), minlength=classes * classes)
    matrix = confusion.view(classes, classes).cpu().numpy()
    return Evaluation(
        samples=len(samples), correct=int(matrix.trace()), loss=loss / max(len(samples), 1), confusion=matrix
    )
