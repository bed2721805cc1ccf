"""Store a model's tensors: parameters and shared tensors are views of one flat float32 buffer.

Order: home trainable | shared trainable | shared not trainable | beside. So all trainable values are one slice (one SGD
update) and all sent values are one slice (sending is a pointer, receiving a copy, mixing happens in place). `beside`:
tensors of an algorithm that are sent with the model's own and are not part of the module.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Iterable, Mapping

import torch
from torch import Tensor, nn

from fedap_core.arrays import Float32Array
from fedap_core.errors import InvalidInput
from fedap_core.nn.batchnorm import entry_aliases, part_of_entries
from fedap_core.nn.heads import device_of
from fedap_core.parts import Part, TensorSpec, shared_tensors

State = dict[str, Tensor]


def describe_tensors(model: nn.Module, head: Iterable[str]) -> tuple[TensorSpec, ...]:
    """Describe every tensor of the model once (tied ones under their first name), in model order."""
    parts = part_of_entries(model, head)
    aliases = entry_aliases(model)
    specs = []
    for name, tensor in model.state_dict(keep_vars=True).items():
        if aliases[name] != name:
            continue
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            raise InvalidInput(
                f"tensor {name}", str(tensor.dtype), "float32 (or an integer type)", "Call model.float()."
            )
        specs.append(
            TensorSpec(
                name=name,
                shape=tuple(tensor.shape),
                part=parts[name],
                trainable=bool(tensor.requires_grad),
                floating=tensor.is_floating_point(),
            )
        )
    return tuple(specs)


class FlatModel:
    """A module whose trainable and shared tensors are views of `flat`; the others are not moved.

    Laws: `trainable` and `shared` are slices of `flat`, and writing to them changes the module; `state()` is a copy.
    """

    def __init__(
        self,
        module: nn.Module,
        tensors: tuple[TensorSpec, ...],
        home: Collection[Part],
        buffer: Tensor | None = None,
        *,
        beside: tuple[TensorSpec, ...] = (),
        mirrored: bool | None = None,
    ) -> None:
        self.module = module
        self.layout = shared_tensors(tensors, home)
        shared_names = {spec.name for spec in self.layout}
        home_trainable = [spec for spec in tensors if spec.trainable and spec.name not in shared_names]
        entries = model_entries(module)
        total = flat_size((*tensors, *beside), home)
        self.flat = torch.empty(total, device=device_of(module)) if buffer is None else buffer
        if self.flat.shape != (total,) or self.flat.dtype != torch.float32:
            raise InvalidInput("buffer", tuple(self.flat.shape), f"{total} float32 values")

        at = 0
        for spec in (*home_trainable, *self.layout):
            view = self.flat[at : at + spec.size].view(spec.shape)
            with torch.no_grad():
                view.copy_(entries[spec.name])
            entries[spec.name].data = view
            at += spec.size
        self.beside: State = {}
        """Tensors sent beside the model, by name: flat views, initially zeros."""
        for spec in beside:
            self.beside[spec.name] = self.flat[at : at + spec.size].zero_()
            at += spec.size
        shared_from = sum(spec.size for spec in home_trainable)
        trainable = sum(spec.size for spec in tensors if spec.trainable)
        self.trainable = self.flat[:trainable]
        self.shared = self.flat[shared_from:]
        self.mirrored = self.flat.device.type != "cpu" if mirrored is None else mirrored
        on_host = self.shared.detach()
        self.host: Float32Array = (on_host.to("cpu", copy=True) if self.mirrored else on_host).numpy()
        """The shared slice in main memory: the model itself on a CPU, a mirror of it on an accelerator."""
        self.tensors, self._home = tensors, home
        trained = [spec for spec in (*home_trainable, *self.layout) if spec.trainable]
        ends = tuple(itertools.accumulate(spec.size for spec in trained))
        self._placed = tuple(
            (spec, end - spec.size, end, entries[spec.name]) for spec, end in zip(trained, ends, strict=True)
        )
        """Every trainable tensor with its range in `trainable`, and the parameter itself."""

    def attach_gradient(self, gradient: Tensor) -> None:
        """Let autograd add into `gradient` (same shape as `trainable`): every `.grad` becomes a view of it."""
        for spec, start, stop, parameter in self._placed:
            if parameter.requires_grad:
                parameter.grad = gradient[start:stop].view(spec.shape)

    def detach_gradient(self) -> None:
        """Release the gradient buffer, so that it can be freed between rounds."""
        for _, _, _, parameter in self._placed:
            parameter.grad = None

    def receive(self) -> None:
        """Copy what was written to `host` into the model."""
        if self.mirrored:
            self.shared.copy_(torch.from_numpy(self.host))

    def publish(self) -> None:
        """Copy the model's shared values to `host`."""
        if self.mirrored:
            torch.from_numpy(self.host).copy_(self.shared)

    def twin(self) -> FlatModel:
        """Return a second model with the same values and layout, without the tensors sent beside it."""
        return FlatModel(copy.deepcopy(self.module), self.tensors, self._home)

    def parameters_outside(self, parts: Collection[Part]) -> list[Tensor]:
        """Return the parameters that belong to none of the parts."""
        return [parameter for spec, _, _, parameter in self._placed if spec.part not in parts]

    def trained_ranges(self) -> list[tuple[int, int]]:
        """Return [start, stop) in `trainable` of the values that now require a gradient; neighbours are joined."""
        ranges: list[tuple[int, int]] = []
        for _, start, stop, parameter in self._placed:
            if not parameter.requires_grad:
                continue
            if ranges and ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], stop)
            else:
                ranges.append((start, stop))
        return ranges

    def mask(self, parts: Collection[Part]) -> Tensor:
        """Return (trainable,): 1 for values that belong to one of the parts, 0 for others."""
        mask = torch.zeros_like(self.trainable)
        for spec, start, stop, _ in self._placed:
            if spec.part in parts:
                mask[start:stop] = 1.0
        return mask

    def state(self) -> State:
        """Return copies of all entries, tied ones once."""
        aliases = entry_aliases(self.module)
        return {
            name: tensor.detach().clone().contiguous()
            for name, tensor in model_entries(self.module).items()
            if aliases[name] == name
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Copy values into the named entries; they remain views of `flat`."""
        copy_into(self.module, state)


def flat_size(tensors: Iterable[TensorSpec], home: Collection[Part]) -> int:
    """Return the number of float32 values in a FlatModel's buffer: all trainable and all shared ones."""
    listed = tuple(tensors)
    shared = {spec.name for spec in shared_tensors(listed, home)}
    return sum(spec.size for spec in listed if spec.trainable or spec.name in shared)


def model_entries(model: nn.Module) -> dict[str, Tensor]:
    """Return the live tensors behind a model's state_dict."""
    return dict(model.state_dict(keep_vars=True))


def copy_into(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy values into a model's entries; refuse unknown names and wrong shapes before anything is written."""
    entries = model_entries(model)
    for name, value in state.items():
        if name not in entries:
            raise InvalidInput(f"tensor {name}", "unknown", "a tensor of this model", "Is it a file of another model?")
        if entries[name].shape != value.shape:
            raise InvalidInput(f"tensor {name}", tuple(value.shape), f"shape {tuple(entries[name].shape)}")
    with torch.no_grad():
        for name, value in state.items():
            entries[name].copy_(value)
