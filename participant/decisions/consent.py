"""Check the plan against what the participant allows, and every order against the plan.

Pure: takes messages and returns refusals; it uses no socket, file or clock. `soundness` checks the values themselves.
The rule: the phase, measure and tensors of an order follow from the plan alone, and the plan was agreed to. Code that
a message names is imported only if this participant's own configuration lists exactly that name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from fedap_core.errors import InvalidInput, shortened
from fedap_core.model_spec import ModelSpec
from fedap_core.strategies import Measure, Phase, RoundPlan, Strategy, make_strategy, sealing_objection
from participant.decisions.actions import Order
from participant.decisions.allowance import Allowance
from participant.decisions.layouts import floating_layout, model_layout, shared_layout
from protocol.encodings import downward, encoding_of
from protocol.messages import Anchor, Finish, Plan, Train, Welcome
from protocol.plan import RESERVED_RUNS
from protocol.sealed_sets import row_layout
from protocol.tensors import Layout, TensorSet, rows_differ

_SHOWN_CHANGES = 6


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why an order is not carried out: the error code on the wire, and a sentence."""

    code: str
    reason: str


class OrderRefused(Exception):
    """An order whose contents must not be used; nothing was done for it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class Terms:
    """The orders that one plan permits. Created by `Consent.terms`, which has checked the plan itself.

    most_rounds: the most rounds this participant allows. In continuous mode all members together train as many
    rounds as in barrier mode, so a fast one trains more than the plan's number, and this is its bound.
    """

    def __init__(self, plan: Plan, strategy: Strategy, spec: ModelSpec, *, most_rounds: float) -> None:
        self._plan = plan
        self._rounds = plan.rounds if plan.mode == "barrier" else most_rounds
        self._strategy = strategy
        self._whole = model_layout(spec)
        self._everything = floating_layout(spec)
        self._shared = shared_layout(spec, strategy)

    def refusal(self, order: Order) -> Refusal | None:
        """Why the plan does not permit this order, or None if it does. A run may end at any time, so only the weights
        of a `finish` can be refused."""
        match order:
            case Train():
                return self._refuse_train(order)
            case Anchor():
                return self._refuse_anchor(order)
            case Finish(weights=weights, uploads=uploads, base=base):
                if weights is None:
                    return None
                return self._refuse_tensors("finish", weights, self._shared, sealed=uploads is not None, base=base)

    def round_plan(self, round_no: int) -> RoundPlan:
        """Return the phase and measure of a round. The strategy counts from the first round after warm-up."""
        warmup = self._plan.warmup_rounds
        if round_no < warmup:
            return RoundPlan(phase=Phase.WARMUP)
        return self._strategy.round_plan(round_no - warmup, self._plan.rounds - warmup)

    def _refuse_train(self, order: Train) -> Refusal | None:
        what = f"train {order.round_no}"
        if order.round_no >= self._rounds:
            whose = "the plan has" if self._plan.mode == "barrier" else "this participant allows"
            return Refusal(code="bad-round", reason=f"{what}: {whose} {self._rounds:g} rounds, 0 is the first")
        due = self.round_plan(order.round_no)
        if order.phase != due.phase:
            return _odd(what, "phase", order.phase, due.phase)
        if order.measure != due.measure and order.measure not in self._owed_measures(order.round_no):
            return _odd(what, "measure", order.measure, due.measure)
        layout = self._everything if due.phase is Phase.WARMUP else self._shared
        if order.peers is not None and not (self._plan.sealed and self._plan.sealed.statistics_to == "members"):
            return _odd(what, "peers", "statistics of others", "none")
        return self._refuse_tensors(what, order.weights, layout, sealed=order.uploads is not None, base=order.base)

    def _owed_measures(self, round_no: int) -> tuple[Measure, ...]:
        """The coordinator may ask for a round's statistics again after the round that measures, if it lacks them
        because their sender was absent or joined later. They are of the same kind, and `check` lists them."""
        if self.round_plan(round_no).phase is not Phase.MIXED:
            return ()
        rounds = range(self._plan.warmup_rounds, round_no)
        measured = any(self.round_plan(one).measure is not Measure.NONE for one in rounds)
        return (self._strategy.round_measure,) if measured else ()

    def _refuse_anchor(self, order: Anchor) -> Refusal | None:
        plan, what = self._plan, f"anchor {order.round_no}"
        counts = plan.sealed is not None and plan.sealed.statistics_to == "members"
        if self._strategy.first_measure is Measure.NONE and plan.start_from != "anchor" and not counts:
            return Refusal(code="bad-field", reason=f"{what}: {plan.strategy} measures nothing before it trains")
        if not plan.warmup_rounds <= order.round_no <= plan.rounds:
            expected = f"from {plan.warmup_rounds} to {plan.rounds}"
            return Refusal(code="bad-round", reason=f"{what}: got round {order.round_no}, expected {expected}")
        if order.measure != self._strategy.first_measure:
            return _odd(what, "measure", order.measure, self._strategy.first_measure)
        if order.weights is None:
            return None
        if plan.anchor == "none":
            return _odd(what, "weights", "a model", "none, because the plan measures under the initial model")
        if plan.sealed is not None and plan.anchor == "warmup":
            return self._refuse_tensors(what, order.weights, self._everything, sealed=True)
        return self._refuse_tensors(what, order.weights, self._whole, encoding="f32", sealed=order.uploads is not None)

    def _refuse_tensors(
        self,
        what: str,
        got: TensorSet,
        layout: Layout,
        encoding: str = "",
        *,
        sealed: bool = False,
        base: int | None = None,
    ) -> Refusal | None:
        if sealed and self._plan.sealed is None:
            return _odd(what, "uploads", "a list", "none, because the run is not sealed")
        if sealed:
            layout = row_layout(layout.elements)
        elif self._plan.sealed is not None and not encoding:
            layout = Layout(())  # weights that were not mixed are already at home
        planned = encoding_of(self._plan.encoding)
        expected: tuple[str, ...] = (encoding or downward(planned),)
        if not encoding and rows_differ(layout, planned):  # a row as a difference, or in full as it would arrive
            expected = (planned,) if base is not None else (downward(planned), "f32")
        elif base is not None:
            return _odd(what, "base", str(base), "none, because the plan sends no differences to updates")
        if got.layout != layout:
            described = f"{len(got.layout.specs)} tensors with {got.layout.elements} values"
            wanted = f"the plan's {len(layout.specs)} tensors with {layout.elements} values"
            return Refusal(code="wrong-tensors", reason=f"{what}: got {described}, expected {wanted}")
        if got.encoding not in expected:
            return _odd(what, "encoding", got.encoding, " or ".join(expected))
        return None


@dataclass(frozen=True, kw_only=True)
class Consent:
    """What one participant agrees to.

    name: its own name. keyed: the coordinator identifies it by its key, and may use another name for it.
    trusted: `package.module:name` of its own code that a plan may name. group_key: fingerprint of its group key, if it
    has one; it then accepts only runs sealed under that key. statistics_to: who may see its statistics there.
    """

    spec: ModelSpec
    allowance: Allowance
    name: str
    keyed: bool = False
    trusted: frozenset[str] = frozenset()
    group_key: str | None = None
    statistics_to: str = "members"

    def terms(self, welcome: Welcome, before: Welcome | None = None) -> Terms:
        """Return the terms of a plan, or raise InvalidInput naming what is not agreed to.

        before: an earlier welcome of this run, whose plan must not have changed.
        """
        plan = welcome.plan
        if welcome.run in RESERVED_RUNS:
            raise InvalidInput(
                "welcome.run", welcome.run, "another name, because the state folder has a file of this name"
            )
        self.allowance.refuse_excess(welcome)
        if not self.keyed and welcome.participant != self.name:
            raise InvalidInput("welcome.participant", welcome.participant, f"{self.name}, the name in hello")
        if before is not None:
            self._require_same(before, welcome)
        strategy = strategy_of(plan, self.trusted)
        self._require_sealed(plan, strategy)
        self.allowance.refuse_settings(strategy)
        require_layouts(plan, self.spec, strategy)
        initial = welcome.initial
        if initial is not None and (initial.layout != model_layout(self.spec) or initial.encoding != "f32"):
            raise InvalidInput("welcome.initial", f"{len(initial.layout.specs)} other tensors", "those of this model")
        return Terms(plan, strategy, self.spec, most_rounds=self.allowance.limits["rounds"].high)

    def _require_sealed(self, plan: Plan, strategy: Strategy) -> None:
        sealing = plan.sealed
        announced = None if sealing is None else sealing.fingerprint
        if announced != self.group_key:
            expected = "none" if self.group_key is None else f"a run sealed under {self.group_key}, this group key"
            raise InvalidInput("plan.sealed", announced or "none", expected)
        if sealing is None:
            return
        if sealing.statistics_to != self.statistics_to:
            fix = f"If you agree, join again with --statistics-to {sealing.statistics_to}."
            raise InvalidInput("plan.sealed.statistics_to", sealing.statistics_to, self.statistics_to, fix)
        refused = sealing_objection(strategy)
        if refused:
            raise InvalidInput("plan.strategy", plan.strategy, f"one that can be sealed: {refused}")

    def _require_same(self, before: Welcome, welcome: Welcome) -> None:
        changed = changed_plan(json.loads(terms_text(before)), welcome)
        if changed is not None:
            raise changed


def strategy_of(plan: Plan, trusted: Collection[str]) -> Strategy:
    """Return the algorithm of a plan. A participant's own code is imported only if its configuration lists it."""
    if ":" in plan.strategy and plan.strategy not in trusted:
        fix = f"Nothing was imported. If this is your own code, join again with --trust-code {plan.strategy}."
        raise InvalidInput("plan.strategy", plan.strategy, "a built-in algorithm, or trusted code (--trust-code)", fix)
    return make_strategy(plan.strategy, dict(plan.options))


def require_layouts(plan: Plan, spec: ModelSpec, strategy: Strategy) -> None:
    """Refuse a plan whose tensors differ from those that this program would use."""
    for field, got, expected in (
        ("plan.model_layout", plan.model_layout, model_layout(spec).digest),
        ("plan.shared_layout", plan.shared_layout, shared_layout(spec, strategy).digest),
    ):
        if got != expected:
            raise InvalidInput(field, got, f"{expected}, the tensors of {spec.model} under {plan.strategy}")


def _odd(what: str, field: str, got: str, expected: str) -> Refusal:
    return Refusal(code="bad-field", reason=f"{what}: {field}: got {got}, expected {expected}, as in the plan")


def terms_text(welcome: Welcome) -> str:
    """Return the agreed terms as canonical JSON: the participant's name in the run, and the plan."""
    return json.dumps({"participant": welcome.participant, "plan": welcome.plan.write([])}, sort_keys=True)


def digest_of(text: str) -> str:
    """Return the digest by which an operator refers to a plan."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def agreed_facts(welcome: Welcome) -> Mapping[str, object]:
    """The logged facts of an accepted plan; `plan` is its digest."""
    plan = welcome.plan
    terms = {
        "run": welcome.run,
        "participant": welcome.participant,
        "algorithm": plan.strategy,
        "rounds": plan.rounds,
    }
    return {**terms, "plan": digest_of(terms_text(welcome))}


def changes_between(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """Return every field that differs between two sets of terms, as «field old → new»."""
    old, new = dict(_flat(before)), dict(_flat(after))
    names = [*old, *(name for name in new if name not in old)]
    return tuple(f"{n} {old.get(n, 'none')} → {new.get(n, 'none')}" for n in names if old.get(n) != new.get(n))


def changed_plan(before: Mapping[str, object], welcome: Welcome) -> InvalidInput | None:
    """Return an error asking the operator to accept a changed plan; None if unchanged. before: the agreed terms."""
    text = terms_text(welcome)
    changes = changes_between(before, json.loads(text))
    if not changes:
        return None
    fix = f"If you agree to the change, join again with --accept-plan {digest_of(text)}."
    shown = shortened(changes, _SHOWN_CHANGES)
    return InvalidInput(f"plan of run {welcome.run}", shown, "the plan that was accepted at first contact", fix)


def _flat(described: Mapping[str, object], path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in described.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}".removeprefix("plan."), value
