"""Starts a command: while its modules are loaded, an interrupt ends the process at once, with one line.

Otherwise it would surface as a traceback of whatever is being imported, or be lost in a callback of Python's import
system. Imports as little as possible itself: until it is loaded, Python answers interrupts.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from importlib import import_module


def run_module(name: str) -> None:
    """Load a module and call its `main`; invalid input or a missing library ends the process with one line."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else a shell or service has it ignored
    if ours:
        signal.signal(signal.SIGINT, _end_at_once)

    def load_and_run() -> None:
        main = import_module(name).main
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main()

    import_module("fedap_core.errors").exit_on_invalid_input(load_and_run)


def _end_at_once(number: int, _frame: object) -> None:
    """Exit without an exception, which would pass through whatever is being imported. Nothing has been begun yet."""
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(128 + number)
