"""Laws of the torch half: batches cover everything once, statistics do not depend on them, flat models lose nothing."""

from __future__ import annotations

import itertools
import json

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedap_core.errors import InvalidInput
from fedap_core.model_spec import METADATA_KEY, ModelSpec
from fedap_core.nn.samples import batch_bounds
from fedap_core.nn.state import FlatModel, describe_tensors, flat_size
from fedap_core.nn.statistics import batch_norm_inputs
from fedap_core.parts import Part
from tests.support.models import ZOO, draw

NORMS: dict[int, type[nn.Module]] = {
    2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d,
}  # fmt: skip

homes = st.frozensets(st.sampled_from(list(Part)))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=True) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
DESCRIBED: dict[str, object] = {
    "format": 1, "model": "tiny", "tensors": [["w", [2, 3], "BODY", True, True]], "head": ["fc"],
    "classes": ["a", "b"], "input_shape": [1, 6, 6], "preprocessing": [1.0, 0.0, []], "seed": 0, "notes": {},
}  # fmt: skip
FIELDS = tuple(DESCRIBED)


@given(samples=st.integers(0, 300), batch_size=st.integers(2, 40))
def test_batches_cover_every_sample_once_and_none_is_alone(samples: int, batch_size: int) -> None:
    bounds = batch_bounds(samples, batch_size)
    assert [at for start, stop in bounds for at in range(start, stop)] == list(range(samples))
    sizes = [stop - start for start, stop in bounds]
    assert all(2 <= size <= batch_size + 1 for size in sizes) or samples == 1
    assert all(size == batch_size for size in sizes[:-1])


@given(samples=st.integers(0, 300), batch_size=st.integers(2, 40))
def test_even_batches_cover_every_sample_once_and_are_of_nearly_equal_size(samples: int, batch_size: int) -> None:
    bounds = batch_bounds(samples, batch_size, "even")
    assert [at for start, stop in bounds for at in range(start, stop)] == list(range(samples))
    sizes = [stop - start for start, stop in bounds]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert all(2 <= size <= max(3, 1.5 * batch_size) for size in sizes) or samples == 1


@given(
    seed=st.integers(0, 2**32 - 1),
    dims=st.integers(2, 5),
    channels=st.integers(1, 4),
    cuts=st.lists(st.integers(1, 29), max_size=6),
    offset=st.sampled_from([0.0, 1.0, -300.0]),
    scale=st.sampled_from([1e-3, 1.0, 100.0]),
)
@settings(max_examples=60, deadline=None)
def test_statistics_are_exact_for_any_batches_and_dimensions(
    seed: int, dims: int, channels: int, cuts: list[int], offset: float, scale: float
) -> None:
    """Within 1e-10 of the layer's own scale of numpy on all values at once, covariance included."""
    inputs = draw(30, channels, *(2, 3, 2)[: dims - 2], seed=seed, scale=scale, offset=offset)
    bounds = [0, *sorted(set(cuts)), 30]
    batches = [inputs[start:stop] for start, stop in itertools.pairwise(bounds)]
    found = batch_norm_inputs(nn.Sequential(NORMS[dims](channels)), batches, covariance=True)
    values = np.moveaxis(inputs.double().numpy(), 1, 0).reshape(channels, -1)
    layer, size = found.layers[0], float(np.abs(values).max())
    assert (found.samples, layer.count) == (30, values.shape[1])
    np.testing.assert_allclose(layer.mean, values.mean(axis=1), rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(layer.variance, values.var(axis=1), rtol=1e-10, atol=1e-10 * scale * size)
    assert layer.covariance is not None
    expected = np.cov(values, bias=True).reshape(channels, channels)
    np.testing.assert_allclose(layer.covariance, expected, rtol=1e-10, atol=1e-10 * scale * size)


@given(name=st.sampled_from(sorted(ZOO)), home=homes, seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_a_flat_model_holds_every_value_once_and_gives_all_of_them_back(
    name: str, home: frozenset[Part], seed: int
) -> None:
    specimen = ZOO[name]
    model = specimen.make(seed)
    tensors = describe_tensors(model, [specimen.head])
    values = {entry: tensor.clone() for entry, tensor in model.state_dict().items()}
    flat = FlatModel(model, tensors, home)
    assert flat.flat.numel() == flat_size(tensors, home)
    travelling = [values[spec.name].flatten() for spec in flat.layout]
    assert torch.equal(flat.shared, torch.cat([*travelling, torch.zeros(0)]))
    state = flat.state()
    flat.flat.copy_(draw(flat.flat.numel(), seed=seed))
    flat.load(state)
    assert all(torch.equal(model.state_dict()[entry], value) for entry, value in values.items())


@given(name=st.sampled_from(sorted(ZOO)), home=homes)
@settings(max_examples=40, deadline=None)
def test_every_floating_tensor_either_travels_or_stays_home_by_its_part(name: str, home: frozenset[Part]) -> None:
    specimen = ZOO[name]
    model = specimen.make()
    tensors = describe_tensors(model, [specimen.head])
    travels = {spec.name for spec in FlatModel(model, tensors, home).layout}
    assert travels == {spec.name for spec in tensors if spec.floating and spec.part not in home}


@given(field=st.sampled_from(FIELDS), value=json_values)
@settings(max_examples=80, deadline=None)
def test_a_description_with_any_field_replaced_is_read_or_refused(field: str, value: object) -> None:
    described = DESCRIBED | {field: value}
    try:
        spec = ModelSpec.from_metadata({METADATA_KEY: json.dumps(described)}, source="m")
    except InvalidInput:
        return
    assert ModelSpec.from_metadata(spec.to_metadata(), source="m") == spec
    assert sum(tensor.size for tensor in spec.tensors) >= 0
