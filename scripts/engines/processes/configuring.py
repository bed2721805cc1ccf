"""Writes files and settings under which a federation of processes computes the same as the inline engine.

No member is ever declared dead or left out here: the parent notices a process that dies, and the numbers of a run
without it would be those of another run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedap_core.errors import InvalidInput
from fedap_core.strategies import Measure
from participant.config import JoinSettings
from protocol.plan import PEER_NAME
from scripts.run.cohort import Cohort
from scripts.run.settings import RunSettings

HEARTBEAT_S = 30.0
"""Infrequent: on one machine a broken connection is seen at once, and heartbeats of a thousand participants add up."""
ANSWER_S = 60.0
"""Nothing is lost on the way to a busy process; a repeated hello would only add to its work."""
NEVER_S = 30 * 86_400.0
"""Longer than any run; the coordinator needs a number."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """The model files of a run. anchor: the model to measure statistics under, if they are measured."""

    initial: Path
    anchor: Path | None


def require_possible(settings: RunSettings, cohort: Cohort) -> None:
    """Refuse runs that only the inline engine supports."""
    fix = "Use --engine inline."
    if settings.device != "cpu":
        raise InvalidInput("device", settings.device, "cpu, because every participant is a process", fix)
    for client in cohort.clients:
        if not re.fullmatch(PEER_NAME, client.name):
            raise InvalidInput("client", client.name, "a name of letters, digits, dots, _ and -, at most 64", fix)


def write_config(path: Path, settings: RunSettings, cohort: Cohort, start: Start, *, folder: Path) -> None:
    """Write run.toml for the coordinator."""
    names = cohort.names
    measures = settings.strategy().first_measure is not Measure.NONE
    warmup = settings.warm_up_rounds
    quorum = max(1, round(settings.participation * len(names)))
    fields: dict[str, object] = {
        "run": f"lab-{settings.identity}",
        "folder": str(folder),
        "initial": str(start.initial),
        "rounds": settings.rounds,
        "seed": settings.seed,
        "mode": settings.mode,
        "split": settings.cohort.protocol,
        "validation": settings.cohort.validation,
        "start_from": "anchor" if warmup and settings.start_from == "anchor" else "initial",
        "evaluate_every": settings.evaluate_every,
        "encoding": settings.encoding,
        "participation": settings.participation,
        "algorithm": {
            "name": settings.algorithm,
            "robust": str(settings.options.get("robust", "none")),
            "min_similarity": 0.0,
        },
        "algorithm.options": dict(settings.options),
        "anchor": {"file": str(start.anchor)} if start.anchor and measures else {"warmup_rounds": warmup},
        "training": {**settings.sgd.write([]), **settings.compute.write([])},
        "members": {"names": names, "at_least": len(names), "late_join": False, "min_samples": 2},
        "pace": {"heartbeat_s": HEARTBEAT_S, "dead_after_s": NEVER_S, "quorum": quorum, "linger_s": NEVER_S},
        "network": {"endpoint": "tcp://127.0.0.1:*"},
    }
    path.write_text("\n".join(toml_lines(fields)) + "\n", encoding="utf-8")


def toml_lines(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the lines of a TOML file: values as JSON, which is also TOML unless they are tables, then the tables."""
    tables = {name: value for name, value in fields.items() if isinstance(value, dict)}
    for name, value in fields.items():
        if name not in tables:
            yield f"{name} = {json.dumps(value, ensure_ascii=False)}"
    for name, table in tables.items():
        yield f"[{name}]"
        for key, value in table.items():
            if value is not None:  # TOML has no null: an omitted field means none
                yield f"{json.dumps(key)} = {json.dumps(value, ensure_ascii=False)}"


def join_settings(
    settings: RunSettings, name: str, *, endpoint: str, shard: Path, initial: Path, state: Path
) -> JoinSettings:
    """Return one participant's settings; it shares class tables and allows any plan, since the lab owns all of them."""
    asked = {**settings.sgd.write([]), **settings.compute.write([]), "warmup_rounds": settings.rounds}
    asked |= {"evaluate_every": settings.evaluate_every}
    if settings.mode == "barrier":  # otherwise a fast participant trains more rounds, for those that slow ones do not
        asked["rounds"] = settings.rounds
    bounds = {name: value for name, value in asked.items() if type(value) in (int, float)}
    return JoinSettings(
        coordinator=endpoint,
        data=str(shard),
        model_file=initial,
        name=name,
        state=state,
        split=settings.cohort.protocol,
        validation=settings.cohort.validation,
        seed=settings.seed,
        share=("class_counts",),
        algorithm=settings.algorithm,
        allow=(
            *(f"{field}<={bound}" for field, bound in bounds.items()),
            "option.full_covariance=true,false",
        ),
        evaluate_beside=False,  # participants on one machine use all cores
        also_local=False,  # the algorithm `base` is a separate run
        reconnect_s=0.1,
        reconnect_cap_s=1.0,
        answer_s=ANSWER_S,
        farewell_s=NEVER_S,  # the coordinator waits for every goodbye: none may exit before its own has arrived
    )
