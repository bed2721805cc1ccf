"""Entry point of `fedap-participant`. Imports the command lazily, so that a missing library gives a one-line error."""

from __future__ import annotations

import importlib

from fedap_core.errors import exit_on_invalid_input


def main() -> None:
    """Entry point."""
    exit_on_invalid_input(lambda: importlib.import_module("participant.cli").main())


if __name__ == "__main__":
    main()
