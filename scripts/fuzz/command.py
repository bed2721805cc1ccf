"""`fedap-lab fuzz`: distributes cases among the targets, runs them in separate processes, replays findings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedap_core.errors import InvalidInput
from scripts.fuzz.shares import REAL_LIMITS, SHARES, shared

_TARGETS = (*SHARES, "all")


def fuzz(
    cases: Annotated[
        int, typer.Option(help="Total number of cases, including those of earlier runs with this seed.", min=1)
    ] = 100_000,
    seed: Annotated[int, typer.Option(help="Seed of the cases.", min=0)] = 0,
    target: Annotated[str, typer.Option(help=f"One of {', '.join(_TARGETS)}.")] = "all",
    folder: Annotated[
        Path, typer.Option(help="Folder for progress, findings and corpus; an interrupted run resumes.")
    ] = Path("fuzz"),
    replay: Annotated[Path | None, typer.Option(help="Replay this finding.")] = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Coverage-guided fuzzing of codec and frames, with atheris.")
    ] = False,
) -> None:
    """Send mutated messages to codec, transfers, conversation and both machines: only the protocol's own errors may be
    raised, within limits of time and memory. The exit code is 1 if something was found; findings are in the folder."""
    if target not in _TARGETS:
        raise InvalidInput("target", target, f"one of {', '.join(_TARGETS)}")
    if coverage:
        from scripts.fuzz.coverage import require_atheris

        require_atheris()
        codes = [_run("scripts.fuzz.coverage", "--cases", cases, "--seed", seed, "--folder", folder)]
    elif replay is not None:
        codes = [_run("scripts.fuzz", _target_of(replay), "--replay", replay)]
    else:
        asked = shared(cases, target)
        groups = [[name for name in asked if (name in REAL_LIMITS) is real] for real in (True, False)]
        codes = [
            _run("scripts.fuzz", *(f"{name}={asked[name]}" for name in names), "--seed", seed, "--folder", folder)
            for names in groups
            if names
        ]
    if any(codes):
        raise typer.Exit(max(codes, key=abs))


def _target_of(path: Path) -> str:
    """Return the target of a finding, which its file name starts with."""
    name = path.name.partition("-")[0]
    if name not in SHARES or not path.is_file():
        raise InvalidInput("replay", str(path), "a finding that an earlier run has written")
    return name


def _run(module: str, *arguments: object) -> int:
    return subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=False).returncode  # noqa: S603
