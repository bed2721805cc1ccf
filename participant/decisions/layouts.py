"""Which tensors of a model a participant sends and receives, as protocol layouts. They follow from the model's
description and the algorithm; values are not involved."""

from __future__ import annotations

from fedap_core.model_spec import ModelSpec
from fedap_core.strategies import Strategy
from protocol.tensors import Layout


def model_layout(spec: ModelSpec) -> Layout:
    """All tensors of a model, in model order; integers are sent as int64."""
    return Layout.described(spec.tensors)


def shared_layout(spec: ModelSpec, strategy: Strategy) -> Layout:
    """The tensors that a participant sends under an algorithm, in the order of the flat buffer."""
    return Layout.described(strategy.travelling(spec))


def floating_layout(spec: ModelSpec) -> Layout:
    """All tensors of a model except its counters, in model order: what is sent in warm-up rounds."""
    return Layout.described(spec.shared(()))
