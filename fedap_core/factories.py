"""Users' own algorithms, models and data: `package.module:factory`, found by import. One rule for all of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from fedap_core.errors import InvalidInput


def find_factory(field: str, name: str) -> Callable[..., Any]:
    """What `package.module:attribute` names; `field` says in errors which option it came from."""
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError, TypeError) as error:  # ValueError: an empty name; TypeError: a relative one
        fix = f"Is the package installed, or its folder on PYTHONPATH? ({error})"
        raise InvalidInput(field, name, f"an importable module {module_name!r}", fix) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise InvalidInput(field, name, f"a callable {attribute!r} in module {module_name!r}")
    factory: Callable[..., Any] = found
    return factory
