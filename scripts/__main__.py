"""Entry point of `fedap-lab`: loads the command so that a missing library or an interrupt ends in one line."""

from __future__ import annotations

from protocol.host.starting import run_module


def main() -> None:
    """Entry point."""
    run_module("scripts.lab")


if __name__ == "__main__":
    main()
