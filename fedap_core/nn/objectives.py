"""What a participant minimises at home: cross-entropy, and terms that look only at the parameters.

A term on the parameters is written as its gradient on the flat buffer: exact, and one operation instead of one per
tensor. To add a local loss, write one function here and one line in PULLS.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from fedap_core.errors import unknown_name
from fedap_core.objectives import ObjectiveSpec

Pull = Callable[[Tensor, Tensor, Tensor, float], None]
"""(gradient, parameters, received, strength): adds the term's gradient in place; all three are flat and trainable."""


def _no_pull(gradient: Tensor, parameters: Tensor, received: Tensor, strength: float) -> None:
    """Plain cross-entropy."""


def _proximal(gradient: Tensor, parameters: Tensor, received: Tensor, strength: float) -> None:
    """FedProx: strength / 2 * ||parameters - received||^2 has the gradient strength * (parameters - received)."""
    gradient.add_(parameters - received, alpha=strength)


PULLS: dict[str, Pull] = {"cross-entropy": _no_pull, "proximal": _proximal}


def data_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of a batch: the part of every objective that looks at samples."""
    return F.cross_entropy(logits, targets)


def pull_of(spec: ObjectiveSpec) -> Pull | None:
    """The parameter term of an objective, or None where there is nothing to add."""
    if spec.name not in PULLS:
        raise unknown_name("objective", spec.name, PULLS)
    return PULLS[spec.name] if spec.strength > 0.0 else None
