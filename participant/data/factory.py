"""Load a user's own data set by `package.module:factory`: a callable from `DataOptions` to `Dataset`."""

from __future__ import annotations

from fedap_core.errors import InvalidInput
from fedap_core.factories import find_factory, users_code
from participant.data.base import DataOptions, Dataset


def load(name: str, options: DataOptions) -> Dataset:
    """Import the module, call the factory and check its result."""
    factory = find_factory("data", name)
    with users_code("data", name, "a function that takes DataOptions and returns a Dataset"):
        dataset = factory(options)
    if not isinstance(dataset, Dataset):
        raise InvalidInput("data", name, f"a factory that returns a Dataset, not {type(dataset).__name__}")
    return dataset
