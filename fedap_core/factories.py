"""Import users' own algorithms, models and data, given as `package.module:factory`. One rule for all of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fedap_core.errors import InvalidInput


def find_factory(field: str, name: str) -> Callable[..., Any]:
    """Import the callable `package.module:attribute`; `field` names its option in errors."""
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError, TypeError) as error:  # ValueError: an empty name; TypeError: a relative one
        fix = f"Is the package installed, or its folder on PYTHONPATH? ({error})"
        raise InvalidInput(field, name, f"an importable module {module_name!r}", fix) from error
    except (Exception, SystemExit) as error:
        raise _raised(field, name, f"a module {module_name!r} that can be imported", error) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise InvalidInput(field, name, f"a callable {attribute!r} in module {module_name!r}")
    factory: Callable[..., Any] = found
    return factory


@contextmanager
def users_code(field: str, name: str, expected: str) -> Iterator[None]:
    """Wrap a call of a user's own code: whatever it raises is reported as invalid input, in one line."""
    try:
        yield
    except InvalidInput:
        raise
    except (Exception, SystemExit) as error:
        raise _raised(field, name, expected, error) from error


def _raised(field: str, name: str, expected: str, error: BaseException) -> InvalidInput:
    return InvalidInput(field, name, expected, f"It raised {type(error).__name__}: {error}")
