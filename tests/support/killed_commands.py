"""Commands killed at every write they make, and repeated: what each death must leave behind is the test's to say."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.support import prefork
from tests.support.federation import WAIT_S

MOST_WRITES = 400
"""More than any command makes: one that does not end by then is never killed at its last write."""

PART_SIZES = (0, 1, 40, 5000)
"""A file grows to so many bytes before the process dies."""


def run_mortal(folder: Path, number: int, module: str, *arguments: str) -> tuple[int, str]:
    """Exit code, and what the command said on both streams."""
    ours, theirs = os.pipe()  # not a file, whose size might be what kills it
    process = prefork.start(
        "tests.support.mortal_command", [str(folder), str(number), module, *arguments],
        stderr=theirs, stdout=theirs, env=os.environ,
    )  # fmt: skip
    os.close(theirs)
    with os.fdopen(ours) as said:
        text = said.read()
    return process.wait(WAIT_S), text


def die_at_every_write(
    folder: Path,
    module: str,
    *arguments: str,
    prepare: Callable[[], object],
    judge: Callable[[], object],
    is_done: Callable[[], bool] = lambda: False,
    every: int = 1,
) -> int:
    """Kill the command before its first, second, ... write below `folder` and amid a file, until one survives. Each
    time: prepare, let it die, judge what is there, repeat the command unless its work is done, judge again. Returns the
    number of deaths. every: leave out other writes."""
    deaths = 0
    for number in (*(-1 - size for size in PART_SIZES), *range(1, MOST_WRITES, every)):
        prepare()
        code, said = run_mortal(folder, number, module, *arguments)
        assert "Traceback" not in said, said
        if code == 0 and number > 0:
            return deaths
        assert code in (0, -signal.SIGKILL, -signal.SIGXFSZ), said
        deaths += code != 0
        judge()
        if not is_done():
            code, said = run_mortal(folder, 0, module, *arguments)
            assert code == 0, f"after death {number}: {said}"
            judge()
    raise AssertionError(f"{module} {arguments}: more than {MOST_WRITES} writes")
