"""Runs one exploration in a separate process, because its slices are tiny. Called by `fedap-lab explore`."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from fedap_core.errors import exit_on_invalid_input
from scripts.explore.scope import Scope
from scripts.inmemory import small_slices
from scripts.run.progress_lines import ProgressLines


def main() -> None:
    """Explore and print a summary; the exit code is 1 if a counterexample was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scope", help="as JSON")
    scope = Scope.read(parser.parse_args().scope)
    small_slices.shrink()
    from scripts.explore.exploring import explored
    from scripts.explore.summary import summary_of

    show = partial(print, flush=True)
    result = explored(scope, progress=ProgressLines(lambda line: show(f"{scope.sentence}: {line}")))
    show(summary_of(scope, result))
    sys.exit(0 if result.counterexample is None else 1)


if __name__ == "__main__":
    exit_on_invalid_input(main, interrupted=None)
