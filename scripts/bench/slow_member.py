"""Measures the cost of waiting: one of ten real participants is ten times slower, barrier against continuous.

Shows accuracy against real time for both modes, on the smartwatch data. The study does the comparison; this module only
chooses the options. Run: python -m scripts.bench.slow_member
"""

from __future__ import annotations

from scripts.experiments.asynchronous.command import asynchronous


def main() -> None:
    """Print both figures; curves and points are written to runs/asynchronous."""
    asynchronous(algorithms="fedap", conditions="slow", engine="processes")


if __name__ == "__main__":
    main()
