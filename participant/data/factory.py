"""A user's own data set by `package.module:factory`: a callable that takes `DataOptions` and returns a `Dataset`."""

from __future__ import annotations

import importlib

from fedap_core.errors import InvalidInput
from participant.data.base import DataOptions, Dataset


def load(name: str, options: DataOptions) -> Dataset:
    """Import the module, call the factory and check what comes back."""
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError, TypeError) as error:  # ValueError: an empty name; TypeError: a relative one
        fix = f"Is the package installed, or its folder on PYTHONPATH? ({error})"
        raise InvalidInput("data", name, f"an importable module {module_name!r}", fix) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise InvalidInput("data", name, f"a callable {attribute!r} in module {module_name!r}")
    dataset = factory(options)
    if not isinstance(dataset, Dataset):
        raise InvalidInput("data", name, f"a factory that returns a Dataset, not {type(dataset).__name__}")
    return dataset
