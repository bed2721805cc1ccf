"""Which tensors of a model a participant sends and receives, as layouts of the protocol. Follows from the model's
description and from the algorithm; knows no values."""

from __future__ import annotations

from fedap_core.model_spec import ModelSpec
from fedap_core.strategies import Strategy
from protocol.tensors import Layout


def model_layout(spec: ModelSpec) -> Layout:
    """All tensors of a model, in model order; whole numbers travel as int64."""
    return Layout.described(spec.tensors)


def shared_layout(spec: ModelSpec, strategy: Strategy) -> Layout:
    """The tensors that leave under an algorithm, in the order of the flat buffer."""
    return Layout.described(strategy.travelling(spec))


def floating_layout(spec: ModelSpec) -> Layout:
    """All tensors of a model but its counters, in that order: what leaves in warm-up rounds."""
    return Layout.described(spec.shared(()))
