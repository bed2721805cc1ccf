"""Derive the plan and the machine's rules from a configuration and the initial model file.

Pure, except that it reads the list of members passed in. Refuses combinations of fields that are invalid together.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields

from coordinator.config import RunConfig, endless
from coordinator.decisions.rules import AdmissionRules, MemberRules, ModelRules, PaceRules, Rules
from coordinator.record.member_list import MemberList
from coordinator.record.model_forms import ModelFile, shared_layout, whole_layout
from fedap_core.errors import InvalidInput
from fedap_core.honest_step import MeasuredStep
from fedap_core.model_spec import ModelSpec
from fedap_core.parts import Part
from fedap_core.strategies import Measure, Strategy, make_strategy, sealing_objection
from protocol.errors import InvalidField
from protocol.messages import Plan, Sealing
from protocol.tensors import names_digest


def strategy_of(config: RunConfig) -> Strategy:
    """Return the algorithm with its options."""
    return make_strategy(config.algorithm.name, _options(config))


def _options(config: RunConfig) -> dict[str, str | int | float | bool]:
    """Return the algorithm's options, including the section's own fields: the robust rule and, if the algorithm
    compares statistics, the minimum similarity."""
    section = config.algorithm
    options: dict[str, str | int | float | bool] = {"robust": section.robust}
    if make_strategy(section.name, section.options).least_similarity is not None:
        options["min_similarity"] = section.min_similarity
    return {**options, **section.options}


def _sealing(config: RunConfig) -> Sealing | None:
    if not config.sealed or config.sealing.group_key is None:
        return None
    return Sealing(
        fingerprint=config.sealing.group_key,
        statistics_to=config.sealing.statistics_to,
        max_peer_weight=config.sealing.max_peer_weight,
        scores=config.sealing.scores,
        age_exponent=None if config.pace.late_updates == "drop" else config.pace.age_exponent,
    )


def _require_sealable(config: RunConfig, strategy: Strategy) -> None:
    """Refuse settings that need values which a sealed run hides."""
    name, sealing = config.algorithm.name, config.sealing
    if sealing.group_key is None:
        fix = "Members make the key with `fedap-participant group-key`, which prints it."
        raise InvalidInput("sealing.group_key", "nothing", "the fingerprint of the members' common key", fix)
    refused = sealing_objection(strategy)
    if refused:
        raise InvalidInput("algorithm.name", name, f"one that can be mixed without seeing values: {refused}")
    if config.encoding != "f32":
        raise InvalidInput("encoding", config.encoding, "f32: sealed values have a fixed width")
    if sealing.scores == "sealed" and config.pace.patience is not None:
        raise InvalidInput("pace.patience", config.pace.patience, "none where scores are sealed")


def make_plan(config: RunConfig, spec: ModelSpec) -> Plan:
    """Return the plan: everything that affects the numerical results of the run."""
    strategy = strategy_of(config)
    _require_possible(config, spec, strategy)
    try:
        return _plan(config, spec, strategy)
    except InvalidField as error:
        raise InvalidInput(error.field, error.got, error.expected) from error


def _plan(config: RunConfig, spec: ModelSpec, strategy: Strategy) -> Plan:
    return Plan(
        strategy=config.algorithm.name,
        options=_options(config),
        mode=config.mode,
        rounds=config.rounds,
        seed=config.seed,
        split=config.split,
        validation=config.validation,
        start_from=config.start_from,
        anchor=_anchor_kind(config),
        warmup_rounds=config.anchor.warmup_rounds,
        evaluate_every=config.evaluate_every,
        participation=config.participation,
        choose_from=config.choose_from,
        encoding=config.encoding,
        model_layout=whole_layout(spec).digest,
        shared_layout=shared_layout(spec, strategy).digest,
        sgd=config.training.sgd,
        compute=config.training.compute,
        sealed=_sealing(config),
    )


def _anchor_kind(config: RunConfig) -> str:
    if config.anchor.file is not None:
        return "file"
    return "warmup" if config.anchor.warmup_rounds else "none"


def _require_possible(config: RunConfig, spec: ModelSpec, strategy: Strategy) -> None:
    if config.sealed:
        _require_sealable(config, strategy)
    if strategy.needs_batch_norm and not any(tensor.part is Part.BATCH_NORM for tensor in spec.tensors):
        raise InvalidInput(
            "algorithm.name", config.algorithm.name, f"one that needs no batch norm: {spec.model} has none",
            "Use fedavg, fedprox, fedper or base.",
        )  # fmt: skip
    if config.members.names and config.network.secret_key is not None:
        raise InvalidInput("members.names", config.members.names, "members.keys, because this run uses keys")
    if config.members.keys is not None and config.network.secret_key is None:
        raise InvalidInput("members.keys", str(config.members.keys), "network.secret_key as well", "Use keygen.")
    if config.pace.patience is not None and config.split == "paper" and config.validation == 0.0:
        expected = 'none where split is "paper" and validation is 0'
        raise InvalidInput("pace.patience", config.pace.patience, expected, "Set validation = 0.2.")
    if config.pace.quorum > config.members.at_most:
        raise InvalidInput("pace.quorum", config.pace.quorum, f"at most members.at_most, {config.members.at_most}")
    if config.members.names and config.pace.quorum > len(config.members.names):
        raise InvalidInput("pace.quorum", config.pace.quorum, f"at most the {len(config.members.names)} members listed")
    _require_quorum(config)
    if config.start_from == "anchor" and _anchor_kind(config) == "none":
        raise InvalidInput("start_from", "anchor", "anchor.file or anchor.warmup_rounds")
    unused = strategy.first_measure is Measure.NONE and config.start_from != "anchor"
    if unused and _anchor_kind(config) != "none":
        raise InvalidInput("anchor", _anchor_kind(config), f"none: {config.algorithm.name} has no use for one")


def _require_quorum(config: RunConfig) -> None:
    """Refuse a quorum above the number of members that take part in a round."""
    drawn = max(1, round(config.participation * (len(config.members.names or ()) or config.members.at_least)))
    if config.participation < 1.0 and config.pace.quorum > drawn:
        fix = "Lower the quorum, or raise participation."
        raise InvalidInput("pace.quorum", config.pace.quorum, f"at most {drawn}, who take part in a round", fix)


def with_measured_step(config: RunConfig, plan: Plan, initial: ModelFile) -> RunConfig:
    """Return the configuration with `max_step` from the initial model file, if the configuration leaves it open."""
    measured = MeasuredStep.noted(initial.notes)
    if config.admission.max_step is not None or measured is None or not measured.covers(plan.sgd):
        return config
    admission = config.admission.model_copy(update={"max_step": measured.bound(strategy_of(config).rounds_in_a_step)})
    return config.model_copy(update={"admission": admission})


def make_rules(config: RunConfig, spec: ModelSpec, listed: MemberList | None) -> Rules:
    """Return the rules of the run's state machine."""
    pace, members = config.pace, config.members
    return Rules(
        run=config.run,
        strategy=strategy_of(config),
        rounds=config.rounds,
        continuous=config.mode == "continuous",
        warmup_rounds=config.anchor.warmup_rounds,
        anchor_file=config.anchor.file is not None,
        start_from_anchor=config.start_from == "anchor",
        participation=config.participation,
        chooses_present=config.choose_from == "present",
        seed=config.seed,
        model=ModelRules(
            model_layout=whole_layout(spec).digest,
            classes=names_digest(spec.classes),
            input_shape=spec.input_shape,
            preprocessing=spec.preprocessing.digest,
        ),
        members=MemberRules(
            allowed=allowed_members(config, listed),
            enrolment_s=endless(members.enrolment_s),
            **members.model_dump(exclude={"keys", "names", "enrolment_s"}),
        ),
        admission=AdmissionRules(**config.admission.model_dump(exclude_none=True)),
        sealing=_sealing(config),
        pace=PaceRules(
            heartbeat_s=pace.heartbeat_s,
            dead_after_s=pace.dead_after_s,
            quorum=pace.quorum,
            deadline_s=endless(pace.deadline_s),
            stalled_after_s=pace.stalled_after_s,
            give_up_s=endless(pace.give_up_s),
            linger_s=pace.linger_s,
            age_exponent=math.inf if pace.late_updates == "drop" else pace.age_exponent,
            patience=pace.patience,
        ),
    )


def allowed_members(config: RunConfig, listed: MemberList | None) -> tuple[tuple[str, str], ...] | None:
    """Return (identity, name) pairs; None: open enrolment. Empty if the list cannot be read: reading a stored run must
    not fail because of that."""
    if listed is not None or config.members.keys is not None:
        return tuple(sorted(listed.names().items())) if listed is not None else ()
    if config.members.names:
        return tuple((name, name) for name in sorted(config.members.names))
    return None


def require_enough_listed(config: RunConfig, listed: MemberList | None) -> None:
    """Refuse a new run whose list is too short to start. A resumed run may have fewer: its list was shortened."""
    allowed = allowed_members(config, listed)
    if allowed is not None and len(allowed) < config.members.at_least:
        least = f"at least members.at_least, {config.members.at_least}"
        raise InvalidInput("list of members", f"{len(allowed)} members", least)


def plan_text(plan: Plan) -> str:
    """Return the plan as JSON, for the journal: a run must continue under the plan it began with."""
    return json.dumps(plan.write([]), sort_keys=True)


_SECTIONS = {"sgd": "training", "compute": "training", "strategy": "algorithm.name", "options": "algorithm.options"}
"""Names of the plan's fields in run.toml."""


def require_same_plan(before: str, plan: Plan, strategy: Strategy, *, ended: bool = False) -> None:
    """Refuse to continue a run under another plan; the error names the first field that differs. More rounds are
    allowed if they do not change the original rounds and the run has not ended."""
    old, new = json.loads(before), json.loads(plan_text(plan))
    if new["rounds"] > old["rounds"]:
        _require_extendable(old["rounds"], plan, strategy, ended=ended)
        old["rounds"] = new["rounds"]
    defaults = {field.name: field.default for field in fields(Plan)}
    for name in new:
        began, asked = old.get(name, defaults[name]), new[name]  # the default for fields added by a later version
        if began == asked:
            continue
        shown = _SECTIONS.get(name, name)
        if isinstance(began, dict) and isinstance(asked, dict):
            inner = next(one for one in {**asked, **began} if asked.get(one) != began.get(one))
            shown, began, asked = f"{shown}.{inner}", began.get(inner), asked.get(inner)
        raise InvalidInput(shown, str(asked), f"{began}, with which this run began", "Give a new run a new folder.")


def _require_extendable(rounds: int, plan: Plan, strategy: Strategy, *, ended: bool) -> None:
    """Refuse to extend a run of `rounds` rounds to those of the plan, unless its rounds stay the same."""
    expected, fix = f"{rounds}, with which this run began", "Give a new run a new folder."
    if ended:
        raise InvalidInput("rounds", plan.rounds, f"{expected}: it has ended", fix)
    if plan.sgd.lr_schedule != "constant":
        raise InvalidInput("rounds", plan.rounds, f"{expected}: its learning rate falls towards the last round", fix)
    if any(strategy.round_plan(one, rounds) != strategy.round_plan(one, plan.rounds) for one in range(rounds)):
        raise InvalidInput("rounds", plan.rounds, f"{expected}: {plan.strategy} divides its rounds into phases", fix)
