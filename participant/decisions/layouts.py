"""Which tensors of a model a participant sends and receives, as layouts of the protocol. Follows from the model's
description and from what stays home; knows no values."""

from __future__ import annotations

from collections.abc import Collection

from fedap_core.model_spec import ModelSpec
from fedap_core.parts import Part
from protocol.tensors import Layout


def model_layout(spec: ModelSpec) -> Layout:
    """All tensors of a model, in model order; whole numbers travel as int64."""
    return Layout.described(spec.tensors)


def shared_layout(spec: ModelSpec, home: Collection[Part]) -> Layout:
    """The tensors that leave when `home` stays home, in the order of the flat buffer."""
    return Layout.described(spec.shared(home))
