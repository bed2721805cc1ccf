"""Runs targets in a separate process, whose limits may be smaller than the wire's. Called by `fedap-lab fuzz`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from fedap_core.errors import exit_on_invalid_input
from scripts.fuzz.shares import REAL_LIMITS, SHARES
from scripts.inmemory import small_slices


def main() -> None:
    """Run or replay; the exit code is 1 if something was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="+", help=f"NAME=CASES, or NAME to replay: {', '.join(SHARES)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("fuzz"))
    parser.add_argument("--replay", type=Path)
    given = parser.parse_args()
    cases = {name: int(number or 0) for name, _, number in (one.partition("=") for one in given.targets)}
    if not REAL_LIMITS.intersection(cases):
        small_slices.shrink()
    sys.exit(_replay(given.replay) if given.replay is not None else _run(cases, given.seed, given.folder))


def _run(cases: dict[str, int], seed: int, folder: Path) -> int:
    import structlog

    from scripts.fuzz import running

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))  # log lines are not examined
    found = 0
    for target, number in cases.items():
        tally = running.run(target, cases=number, seed=seed, folder=folder, print_line=partial(print, flush=True))
        print(tally.sentence, *(f"  {one}" for one in tally.findings), sep="\n", flush=True)
        found += len(tally.findings)
    return 1 if found else 0


def _replay(path: Path) -> int:
    from scripts.fuzz import running

    fault = running.replay(path)
    print(f"still there: {fault}" if fault else "nothing is raised any more")
    return 1 if fault else 0


if __name__ == "__main__":
    exit_on_invalid_input(main, interrupted=None)
