"""Measures what waiting costs: one of ten real participants is ten times slower, barrier against continuous.

Accuracy against the wall's clock, both ways in one call, on the smartwatch data. The comparison is the study's; here is
only the choice that stands in the README. Run: python -m scripts.bench.slow_member
"""

from __future__ import annotations

from scripts.experiments.asynchronous.command import asynchronous


def main() -> None:
    """Print both figures; curves and points lie in runs/asynchronous."""
    asynchronous(algorithms="fedap", conditions="slow", engine="processes")


if __name__ == "__main__":
    main()
