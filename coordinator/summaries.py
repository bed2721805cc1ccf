"""Describes a run as text: what a configuration will do, the state of a run, what has happened. Changes nothing.

All figures come from the configuration and the journal; nothing is estimated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from coordinator.config import RunConfig
from coordinator.decisions import facts
from coordinator.decisions.rules import PaceRules, Rules
from coordinator.decisions.scoring import scores_by_split
from coordinator.decisions.state import State, Status
from coordinator.evaluations import MODEL_WORDS, evaluation_line, latest_evaluations, rounds_in_words
from coordinator.link_estimate import LinkJob, LinkSpeeds
from coordinator.observers.log_lines import event_of, shown_round
from coordinator.record.journal import fact_of
from coordinator.record.model_forms import ModelFile, floating_layout, shared_layout, whole_layout
from coordinator.run_plan import strategy_of
from coordinator.runs import StoredRun
from fedap_core.errors import shortened
from fedap_core.honest_step import SLACK, MeasuredStep
from fedap_core.model_spec import ModelSpec
from fedap_core.parts import Part
from fedap_core.sealing.limitations import cannot_be_had
from fedap_core.similarity import strangers
from fedap_core.strategies import Measure
from protocol.encodings import encoding_of, stored
from protocol.endpoints import is_local
from protocol.messages import Plan
from protocol.sealed_sets import update_layout
from protocol.tensors import row_encoding

_SHOWN_MEMBERS = 40
"""Most members that `status` prints; in a larger run, those with something unusual come first."""
_SHOWN_NAMES = 20
"""Most names or numbers of one list in a line."""

_PARTS = {Part.BODY: "the body", Part.HEAD: "the head", Part.BATCH_NORM: "batch norm"}


def explain(config: RunConfig, plan: Plan, rules: Rules, spec: ModelSpec) -> Iterator[str]:
    """Yield sentences that describe what a run will do."""
    yield f"Run {config.run}: {plan.strategy} with model {spec.model}, {plan.rounds} rounds, folder {config.folder}."
    yield _who(config, rules)
    yield _where(config)
    yield _what_travels(plan, rules, spec)
    yield from _sealed(plan)
    yield from _when(plan, rules)
    if plan.sealed is None:
        yield _admitted(rules)
    yield _mixed(rules)
    least = rules.strategy.least_similarity
    if least:
        yield f"Outliers: a member less than {least:g} similar to all others keeps its own model (min_similarity)."
    yield _disk(config, plan, rules, spec)


def _who(config: RunConfig, rules: Rules) -> str:
    members = rules.members
    if members.allowed is None:
        keys = "with any key" if config.network.secret_key is not None else "on this machine"
        who = f"anybody {keys}, up to {members.at_most}"
    else:
        names = shortened([name for _, name in members.allowed], _SHOWN_NAMES)
        who = f"{len(members.allowed)} ({names})"
    return f"Members: {who}; {_start(rules)}. Each needs {members.min_samples} samples."


def _start(rules: Rules) -> str:
    members = rules.members
    late = "others may join later" if members.late_join else "nobody may join later"
    if math.isinf(members.enrolment_s):
        everyone = "all of them are" if members.allowed is not None else f"{members.at_least} are"
        return f"the run starts when {everyone} present, {late}"
    return f"the run starts after {members.enrolment_s:g} s if {members.at_least} are present, {late}"


def _where(config: RunConfig) -> str:
    if config.network.secret_key is not None:
        return f"Address: {config.network.endpoint}, encrypted; members are verified by their keys."
    reach = "this machine only" if is_local(config.network.endpoint) else "ANYBODY WHO CAN REACH IT (--insecure)"
    return f"Address: {config.network.endpoint}, without keys: {reach}; members are not verified."


def _what_travels(plan: Plan, rules: Rules, spec: ModelSpec) -> str:
    home = rules.strategy.home
    layout = shared_layout(spec, rules.strategy)
    kept = " and ".join(_PARTS[part] for part in sorted(home)) or "nothing"
    encoding = encoding_of(plan.encoding)
    values = f"{layout.elements:,} values of {len(layout.specs)} tensors"
    if plan.sealed is not None:
        size = update_layout(layout.elements).size_bytes("f32")
        return f"Traffic: {kept} stays local; {values}, {size:,} sealed bytes each way, per member and round."
    back = row_encoding(layout, encoding)
    up, down = layout.size_bytes(encoding), layout.size_bytes(back)
    if up == down:
        return f"Traffic: {kept} stays local; {values}, {up:,} bytes as {encoding} each way, per member and round."
    ways = f"{up:,} bytes as {encoding} to the coordinator and {down:,} as {back} back"
    return f"Traffic: {kept} stays local; {values}, {ways}, per member and round."


def _sealed(plan: Plan) -> Iterator[str]:
    sealing = plan.sealed
    if sealing is None:
        return
    statistics = "statistics and sample counts" if sealing.statistics_to == "members" else ""
    scores = "losses and scores" if sealing.scores == "sealed" else ""
    hidden = ", ".join(filter(None, ("updates", statistics, scores)))
    most = f"A peer's weight is at most {sealing.max_peer_weight:g}, more if there are few members."
    yield f"Sealed: {hidden} cannot be read here. {most}"
    for line in cannot_be_had(statistics_to_members=sealing.statistics_to == "members"):
        yield f"Sealed: {line}"


def _when(plan: Plan, rules: Rules) -> Iterator[str]:
    pace = rules.pace
    if rules.warmup_rounds:
        yield f"Rounds: {rules.warmup_rounds} warm-up rounds average everything into the anchor; training restarts."
    if rules.asks_first and rules.first_measure is Measure.NONE:
        yield "Rounds: members start from the whole anchor, including what stays local."
    elif rules.asks_first:
        under = {"file": "the anchor file", "warmup": "the anchor", "none": "the initial model"}[plan.anchor]
        yield f"Rounds: members first send moments of their {rules.first_measure} under {under}."
    if rules.continuous:
        yield "Rounds: not synchronised; whoever reports gets a mix with the others' latest updates at once."
    elif not pace.has_deadline:
        yield "Rounds: one closes when all present members have reported."
    else:
        yield f"Rounds: one closes when all have reported, or after {pace.deadline_s:g} s with {pace.quorum} updates."
    old = "is dropped" if math.isinf(pace.age_exponent) else f"counts (1 + age)^-{pace.age_exponent:g}"
    yield f"Absent members: rounds do not wait for a member silent for {pace.dead_after_s:g} s; its last update {old}."
    if not pace.has_deadline and not math.isinf(pace.stalled_after_s):
        yield (
            f"Present members that do not report: after {pace.stalled_after_s:g} s a round closes without them,"
            f" with {pace.quorum} updates; later rounds do not wait for them until they report."
        )
    yield _end(pace)


def _end(pace: PaceRules) -> str:
    here = "unlimited time" if math.isinf(pace.longest_goodbye_s) else f"{pace.longest_goodbye_s:g} s"
    return f"End: present members have {here} to fetch their last model, absent ones {pace.linger_s:g} s to return."


def _admitted(rules: Rules) -> str:
    bounds, members = rules.admission, rules.members
    return (
        f"Limits: weights up to {bounds.max_value:g}, statistics up to {bounds.max_statistic:g}, steps up to"
        f" {bounds.max_step:g} lengths of the initial model and {bounds.max_outlier:g} typical steps of the run, up to"
        f" {members.max_samples:,} samples; {members.strikes} refused messages exclude a member,"
        f" {members.forgive_after} admitted updates in a row cancel one."
    )


def measured_step_lines(config: RunConfig, plan: Plan, initial: ModelFile) -> Iterator[str]:
    """Yield a sentence on the step measured in the initial model file and its use; nothing if none was measured."""
    measured = MeasuredStep.noted(initial.notes)
    if measured is None or plan.sealed is not None:
        return
    if config.admission.max_step is not None:
        use = "it is not used, because admission.max_step is set"
    elif measured.covers(plan.sgd):
        rounds = strategy_of(config).rounds_in_a_step
        why = f", {SLACK:g} for each of {rounds:g} rounds that momentum may add up" if rounds > 1.0 else ""
        use = f"{SLACK * rounds:g} times that is admitted (admission.max_step){why}"
    else:
        use = "it is not used, because this run trains more per round; set admission.max_step, or measure again"
    yield f"Measured step: one round of training moved {measured}; {use}."


def _mixed(rules: Rules) -> str:
    robustness = rules.strategy.robustness
    if robustness.rule == "none":
        return "Mixing: every admitted update counts as the algorithm says (robust = none)."
    if robustness.rule == "limit":
        return (
            f"Mixing: outliers are scaled back, and one member gives at most {robustness.max_share:.0%} of a shared"
            " model, or of the others' part of a personal one; more if there are few members (robust = limit)."
        )
    return f"Mixing: the others' part of a model is the {robustness.rule} of every value (robust = {robustness.rule})."


def _disk(config: RunConfig, plan: Plan, rules: Rules, spec: ModelSpec) -> str:
    layouts = [shared_layout(spec, rules.strategy), *([floating_layout(spec)] if rules.warmup_rounds else [])]
    row = max(layout.size_bytes(stored(encoding_of(plan.encoding))) for layout in layouts)
    reserve = config.storage.reserve_bytes
    return f"Disk: at most {4 * row:,} bytes per member; the run pauses if less than {reserve:,} bytes are free."


def link_job(plan: Plan, rules: Rules, spec: ModelSpec, speeds: LinkSpeeds) -> LinkJob:
    """Return the input of a link estimate; members are those listed, otherwise as many as the run starts with."""
    shared, allowed = shared_layout(spec, rules.strategy), rules.members.allowed
    members = rules.members.at_least if allowed is None else len(allowed)
    whole = whole_layout(spec).size_bytes("f32")
    return LinkJob(
        shared=shared,
        once_bytes=whole * (2 if rules.asks_first and plan.anchor != "none" else 1),
        members=max(1, math.ceil(plan.participation * members)),
        rounds=plan.rounds,
        epochs=plan.sgd.epochs,
        encoding=encoding_of(plan.encoding),
        speeds=speeds,
        sealed=update_layout(shared.elements).size_bytes("f32") if plan.sealed is not None else 0,
    )


def status_lines(past: StoredRun, now_s: float | None = None) -> Iterator[str]:
    """Yield lines on the state of a run. now_s: time on the run clock; default: that of the last fact."""
    state, config = past.machine.state, past.config
    if state.stage.is_over:
        yield f"Run {config.run}: {state.stage}, {state.sentence}; running for {past.ran_s:.0f} s."
        if not state.ended and (waits := past.machine.waiting_for(past.ran_s if now_s is None else now_s).reason):
            yield f"Waiting: {waits.removeprefix('waiting ')}."
    else:
        where = _rounds_at_work(state, past.machine.rules)
        yield f"Run {config.run}: {state.stage} in {where}; running for {past.ran_s:.0f} s."
        yield f"Waiting: {past.machine.waiting_for(past.ran_s).reason}."
    if state.paused_at is not None:
        yield f"Paused: {state.paused_reason}."
    yield from (f"ATTENTION: {sentence}." for sentence in past.notices())
    yield from _member_lines(state)
    yield from outlier_lines(past)
    if evaluated := latest_evaluations(past):
        yield evaluation_line(evaluated)
    if config.seals_scores:
        yield "Scores are sealed; members can read them with `fedap-participant scores`."


def _rounds_at_work(state: State, rules: Rules) -> str:
    """Return the open round or, in continuous mode, the range of rounds that members are in."""
    rounds = [one.order.round_no for one in state.active() if one.order is not None and one.order.kind == "train"]
    if not rules.continuous or not rounds:
        return f"round {state.round_no + 1} of {rules.rounds}"
    goal = rules.rounds * len(state.active())
    return f"{rounds_in_words(min(rounds), max(rounds))}, {state.accepted} of {goal} updates"


def _member_lines(state: State) -> Iterator[str]:
    """Yield a table of the members; in a large run, those with something unusual first and the rest counted."""
    yield f"{'member':<20} {'status':<12} {'samples':>8} {'order':<12} {'update':>7} {'strikes':>7}"
    members = list(state.members.values())
    if len(members) > _SHOWN_MEMBERS:
        members.sort(key=lambda one: one.status is Status.PRESENT and not one.strikes)
    for member in members[:_SHOWN_MEMBERS]:
        order = "-" if member.order is None else str(member.order.kind)
        if member.order is not None and member.order.kind != "finish":
            order = f"{order} {member.order.round_no + 1}"
        update = "-" if member.update_round is None else str(member.update_round + 1)
        numbers = f"{member.train_samples:>8} {order:<12} {update:>7} {member.strikes:>7}"
        yield f"{member.name:<20} {member.status:<12} {numbers}"
    for member in [one for one in state.members.values() if one.contested][:_SHOWN_MEMBERS]:
        yield (
            f"{member.name}: the name is in use by process {member.instance}, and others tried to join under it"
            f" {member.contested} times, last {member.contested_at or 0.0:.0f} s into the run; they were refused"
        )
    rest = Counter(str(one.status) for one in members[_SHOWN_MEMBERS:])
    if rest:
        yield "and " + ", ".join(f"{count} more {status}" for status, count in sorted(rest.items()))


def outlier_lines(past: StoredRun) -> Iterator[str]:
    """Yield a line for each member that is similar to no other in the last W, and the consequence."""
    entry = past.journal.last_of(facts.Weighed.__name__)
    fact = None if entry is None else fact_of(entry)
    if not isinstance(fact, facts.Weighed):
        return
    least = strategy_of(past.config).least_similarity or 0.0
    follows = "it keeps its own model" if least else "it is mixed with others nevertheless (min_similarity = 0)"
    for name, similarity in strangers(fact.members, fact.similarity, least):
        yield f"Outlier: {name}, similarity {similarity:.2f} to the most similar member; {follows}."


def history_lines(past: StoredRun) -> Iterator[str]:
    """Yield what happened, one line per fact, with its time on the run clock."""
    for entry in past.journal.entries():
        fact = fact_of(entry)
        yield f"{entry.time_s:12.3f} s  {event_of(fact):<22} {_fields_text(fact)}"


def _fields_text(fact: facts.Fact) -> str:
    shown = []
    for name in getattr(fact, "__dataclass_fields__", {}):
        value = getattr(fact, name)
        if name == "scores":
            score = scores_by_split(value).get("test")
            if score is not None:
                model = MODEL_WORDS.get(score.model, score.model)
                value = f"test accuracy of {model} {score.correct / score.samples:.4f}"
            else:
                value = None
        elif name == "round_no" and value is not None:
            name, value = "round", shown_round(fact, value)
        elif name == "weights":
            rows = "; ".join(" ".join(f"{weight:.4f}" for weight in row) for row in value)
            value = rows if len(value) <= _SHOWN_NAMES else f"{len(value)} x {len(value)} numbers"
        elif isinstance(value, tuple):
            value = shortened([" ".join(one) if isinstance(one, tuple) else str(one) for one in value], _SHOWN_NAMES)
        elif isinstance(value, float):
            value = f"{value:.6g}"
        if value is not None:
            shown.append(f"{name}={value}")
    return "  ".join(shown)
