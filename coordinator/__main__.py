"""Entry point of `fedap-coordinator`: imports the command here, so that an interrupt during imports ends it in one
line."""

from __future__ import annotations

import importlib

from fedap_core.errors import exit_on_invalid_input


def main() -> None:
    """Entry point."""
    exit_on_invalid_input(lambda: importlib.import_module("coordinator.cli").main())


if __name__ == "__main__":
    main()
