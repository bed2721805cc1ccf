"""The model as one module from stored values to probabilities, for use without this project.

Made of stock layers only, so that exporters can trace it. The writers decide the file format.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.layers import use_stock_layers
from fedap_core.nn.state import State
from fedap_core.preprocessing import Constant
from participant.record.model_file import module_of


class Deployed(nn.Module):
    """(n, *input_shape) float32 stored values -> (n, classes) probabilities, in eval mode."""

    scale: Tensor
    offset: Tensor

    def __init__(self, spec: ModelSpec, state: State) -> None:
        super().__init__()
        self.network = network_of(spec, state)
        self.register_buffer("scale", _tensor(spec.preprocessing.scale))
        self.register_buffer("offset", _tensor(spec.preprocessing.offset))
        self.eval()

    def forward(self, stored: Tensor) -> Tensor:
        probabilities: Tensor = self.network(stored * self.scale + self.offset).softmax(dim=1)
        return probabilities


def network_of(spec: ModelSpec, state: State) -> nn.Module:
    """Build the module with its values, with stock layers and in eval mode."""
    module = module_of(spec, state)
    use_stock_layers(module)
    return module.eval()


def exported(module: nn.Module, spec: ModelSpec) -> torch.export.ExportedProgram:
    """Trace the module with torch's exporter, for any number of samples at once."""
    example = torch.zeros(2, *spec.input_shape)
    try:
        return torch.export.export(module, (example,), dynamic_shapes=({0: torch.export.Dim("n", min=1)},))
    except Exception as error:  # the exporter runs the model's code, possibly the user's, and may raise anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidInput("model", spec.model, "a model that torch.export can follow", reason) from error


def _tensor(constant: Constant) -> Tensor:
    return torch.tensor(constant, dtype=torch.float32)
