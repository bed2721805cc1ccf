"""Entry point of `fedap-participant`: loads the command so that a missing library or an interrupt ends in one line."""

from __future__ import annotations

from protocol.host.starting import run_module


def main() -> None:
    """Entry point."""
    run_module("participant.cli")


if __name__ == "__main__":
    main()
