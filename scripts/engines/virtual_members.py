"""Builds a run's members and rules, for engines that drive the coordinator's machine in one process.

The rules are those of a coordinator on the network, except that names replace keys and there are no timeouts: no member
is ever lost here. What happens when is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.decisions.rules import MemberRules, ModelRules, PaceRules, Rules
from fedap_core.model_spec import ModelSpec
from participant.decisions.layouts import model_layout
from participant.record.model_file import read_model
from protocol.tensors import names_digest
from scripts.engines.base import EngineOptions
from scripts.engines.inline import anchor_file, initial_file
from scripts.engines.pool import make_clients
from scripts.engines.workbench import Home, Workbench
from scripts.run.clock_settings import AsyncSettings
from scripts.run.cohort import Cohort


@dataclass(frozen=True, kw_only=True)
class VirtualFederation:
    """The members of a run, in name order, and what the coordinator gets before it starts."""

    rules: Rules
    spec: ModelSpec
    homes: dict[str, Home]
    bench: Workbench


def open_federation(settings: AsyncSettings, cohort: Cohort, options: EngineOptions) -> VirtualFederation:
    """Build all members with the model that the run starts from."""
    run = settings.run
    initial = initial_file(run, cohort, options)
    anchor = anchor_file(run, cohort, initial, options) if run.uses_anchor else None
    start = anchor if run.start_from == "anchor" and anchor is not None else initial
    strategy = run.strategy()
    clients = make_clients(
        cohort,
        cohort.clients,
        start=start,
        plan=run.local_plan(),
        device=run.device,
        buffers=[None] * len(cohort.clients),
    )
    spec, measured_under, _ = read_model(anchor or initial)
    rules = _rules(settings, spec, [client.name for client in clients], has_anchor=anchor is not None)
    return VirtualFederation(
        rules=rules,
        spec=spec,
        homes={
            client.name: Home(client, [name for name in cohort.judged if name in mine.splits], strategy)
            for client, mine in zip(clients, cohort.clients, strict=True)
        },
        bench=Workbench(rules, spec, start=clients[0].shared.copy(), anchor=measured_under),
    )


def _rules(settings: AsyncSettings, spec: ModelSpec, names: Sequence[str], *, has_anchor: bool) -> Rules:
    run, clock = settings.run, settings.clock
    return Rules(
        run="virtual",
        strategy=run.strategy(),
        rounds=run.rounds,
        continuous=clock.mode == "continuous",
        anchor_file=has_anchor,
        start_from_anchor=run.start_from == "anchor",
        model=ModelRules(
            model_layout=model_layout(spec).digest,
            classes=names_digest(spec.classes),
            input_shape=spec.input_shape,
            preprocessing=spec.preprocessing.digest,
        ),
        members=MemberRules(allowed=tuple((name, name) for name in names), at_least=len(names), min_samples=1),
        pace=PaceRules(
            heartbeat_s=clock.heartbeat_s,
            dead_after_s=math.inf,
            quorum=clock.quorum,
            deadline_s=math.inf if clock.deadline_s is None else clock.deadline_s,
            linger_s=0.0,
            age_exponent=clock.age_exponent,
        ),
    )
