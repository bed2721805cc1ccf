"""Evaluate a model on given samples: predictions and probabilities in eval mode, in large batches."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from fedap_core.errors import InvalidInput
from fedap_core.metrics import Evaluation
from fedap_core.nn.heads import evaluating
from fedap_core.nn.samples import Samples

EVALUATION_BATCH = 256
"""Large enough to hide the cost of a call, small enough to keep LeNet-5's activations in the cache."""


def evaluate(module: nn.Module, samples: Samples, *, classes: int, batch_size: int = EVALUATION_BATCH) -> Evaluation:
    """Compute loss, confusion matrix and probability-based scores over all samples; the module is unchanged."""
    if not len(samples):
        raise InvalidInput("evaluation.samples", 0, "at least one")
    loss, predicted, probabilities = 0.0, [], []
    with evaluating(module), torch.no_grad():
        for inputs, targets in samples.batches(batch_size):
            logits = module(inputs)
            if logits.shape != (len(targets), classes):
                raise InvalidInput("model output", tuple(logits.shape), f"one logit for each of {classes} classes")
            loss += float(F.cross_entropy(logits, targets, reduction="sum"))
            predicted.append(logits.argmax(dim=1))
            probabilities.append(logits.double().softmax(dim=1))  # float32 would tie confident predictions
    return Evaluation.of(
        samples.y.cpu().numpy(),
        torch.cat(predicted).cpu().numpy(),
        classes=classes,
        loss=loss / len(samples),
        probabilities=torch.cat(probabilities).cpu().numpy(),
    )
