"""Entry point of `fedap-participant`: imports the command here, so that a missing library ends it in one line."""

from __future__ import annotations

import importlib

from fedap_core.errors import exit_on_invalid_input


def main() -> None:
    """Entry point."""
    exit_on_invalid_input(lambda: importlib.import_module("participant.cli").main())


if __name__ == "__main__":
    main()
