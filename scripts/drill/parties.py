"""Runs a drill's roles: the functions behind `fedap-coordinator serve` and `fedap-participant join`.

They are called in forked children, never in the process that forks them. A party can be made to kill itself at a step
of its own record, which is the only difference to the product.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import structlog
import typer

from coordinator import cli
from coordinator.record.journal import Draft, Journal, SqliteJournal
from coordinator.runs import open_run
from participant.config import JoinSettings
from participant.data import load_dataset
from participant.data.base import DataOptions
from participant.joining import join
from participant.progress import configure_logging, log_finished_rounds
from participant.record.model_file import make_initial, write_model
from participant.training.pace import Progress
from scripts.drill.hostile.attackers import make_attackers
from scripts.drill.hostile.coordinator import SCENARIOS, ScenarioData, perform

_TALLY_S = 0.5


class Countdown:
    """Kills this process at a given step, counted from its start."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def before(self) -> None:
        """Count a step that is about to be taken."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class CountedJournal:
    """A journal whose appends are counted, before or after they happen."""

    def __init__(self, inner: Journal, countdown: Countdown, *, after: bool) -> None:
        self._inner = inner
        self._countdown = countdown
        self._after = after

    def append(self, drafts: Sequence[Draft]) -> int:
        if not self._after:
            self._countdown.before()
        serial = self._inner.append(drafts)
        if self._after:
            self._countdown.before()
        return serial

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def _count_files(countdown: Countdown, folder: str) -> None:
    """Count every file below `folder` that is opened for writing, renamed or removed."""
    writing = os.O_WRONLY | os.O_RDWR

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            counts = bool(flags & writing)
        elif event in ("os.rename", "os.remove"):
            path, counts = arguments[0], True
        else:
            return
        if counts and isinstance(path, str | os.PathLike) and str(path).startswith(folder):
            countdown.before()

    sys.addaudithook(hook)


def coordinate(settings: Mapping[str, object]) -> int:
    """Run the coordinator of the run in `config`."""
    config = Path(str(settings["config"]))
    step = settings.get("step")
    if isinstance(step, int):
        countdown = Countdown(step)
        after = settings.get("when") == "after"

        def opened(path: Path) -> Journal:
            return cast(Journal, CountedJournal(SqliteJournal(path), countdown, after=after))

        vars(cli)["open_run"] = partial(open_run, open_journal=opened)
        if not after:
            _count_files(countdown, f"{settings['folder']}/blobs")
    try:
        cli.serve(config=config)
    except typer.Exit as end:
        return end.exit_code
    return 0


def recover(settings: Mapping[str, object]) -> int:
    """Run `fedap-coordinator recover` with --yes."""
    try:
        cli.recover(
            folder=Path(str(settings["folder"])),
            yes=True,
            dry_run=False,
            accept_older=bool(settings["accept_older"]),
            backup=None,
        )
    except typer.Exit as end:
        return end.exit_code
    return 0


def meet_hostile_coordinator(settings: Mapping[str, object]) -> int:
    """Let participants of this process meet a hostile coordinator; faults are written to the file `said`."""
    folder, said = Path(str(settings["folder"])), Path(str(settings["said"]))
    cast_of_all = ScenarioData.made(folder)
    found: dict[str, list[str]] = {}
    for name in cast(Sequence[str], settings["names"]):
        found[name] = list(perform(SCENARIOS[name], cast_of_all, folder / name).faults)
        said.write_text(json.dumps(found), encoding="utf-8")
    return 0


def take_part(settings: Mapping[str, object]) -> int:
    """Run a participant with settings as in a configuration file."""
    wanted = JoinSettings.model_validate(settings["join"])
    configure_logging(terminal=False)
    step = settings.get("step")
    if isinstance(step, int):
        _count_files(Countdown(step), str(wanted.state))
    pace_s = cast(float, settings.get("pace_s", 0.0))
    end = join(wanted, watch=partial(_at_a_pace, pace_s) if pace_s else log_finished_rounds)
    log = structlog.get_logger().error if end.code else structlog.get_logger().info
    log("participant.ended", participant=wanted.name, reason=end.reason, code=end.code)
    return end.code


def _at_a_pace(pause_s: float, progress: Progress) -> None:
    """Pause for `pause_s` in every round; changes no number."""
    log_finished_rounds(progress)
    if progress.loss is not None:  # the round is trained
        threading.Event().wait(pause_s)


def make_model(settings: Mapping[str, object]) -> int:
    """Write the initial model file; in a child, because it uses tensors."""
    options = settings["data_options"]
    given = {str(key): str(value) for key, value in options.items()} if isinstance(options, dict) else {}
    dataset = load_dataset("synthetic", DataOptions(options=given))
    spec, state = make_initial(
        str(settings["model"]),
        input_shape=dataset.input_shape,
        classes=dataset.classes,
        preprocessing=dataset.preprocessing,
        seed=0,
    )
    write_model(Path(str(settings["out"])), spec, state)
    return 0


def attack(settings: Mapping[str, object]) -> int:
    """Run an attacker until killed; the number of attempts is written to the file `tally`."""
    os.nice(5)  # a real attacker has its own machine: it must not win by taking our processor
    tally = Path(str(settings["tally"]))
    attackers = make_attackers(
        str(settings["attack"]),
        str(settings["endpoint"]),
        seed=cast(int, settings["seed"]),
        initial=Path(str(settings["initial"])),
        members=cast(Sequence[str], settings["members"]),
        run=str(settings["run"]),
        keys=Path(str(settings["keys"])) if settings["keys"] else None,
    )
    with attackers as made:
        while True:
            threading.Event().wait(_TALLY_S)
            half = tally.with_suffix(".half")
            half.write_text(f"{made.attempts}", encoding="utf-8")
            half.replace(tally)


WORK: dict[str, Callable[[Mapping[str, object]], int]] = {
    "coordinate": coordinate,
    "take part": take_part,
    "make model": make_model,
    "attack": attack,
    "recover": recover,
    "meet hostile coordinator": meet_hostile_coordinator,
}
