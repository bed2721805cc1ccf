"""Claims about what a participant lets a plan ask for: the grammar of `--allow`, the built-in bounds, sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedap_core.errors import InvalidInput
from fedap_core.strategies import make_strategy
from participant.decisions.allowance import UNBOUNDED, Allowance, fields, parse_allowance
from protocol.contracts import Record
from protocol.messages import Compute, Plan, Sealing, Sgd, Welcome
from tests.unit.protocol.samples import WELCOME

SGD = Sgd(learning_rate=0.05, batch_size=16)
PLAN = replace(WELCOME.plan, options={"self_weight": 0.5}, sgd=SGD)


def allowance(*expressions: str, algorithm: str | None = None, trusted: tuple[str, ...] = ()) -> Allowance:
    return parse_allowance(expressions, cores=2, algorithm=algorithm, trusted=trusted)


def welcome(*, heartbeat_s: float = 5.0, sgd: Sgd = SGD, **plan: object) -> Welcome:
    changed: Plan = replace(PLAN, sgd=sgd, **plan)  # type: ignore[arg-type]
    return replace(WELCOME, heartbeat_s=heartbeat_s, plan=changed)


SEALED = Sealing(fingerprint="ab" * 16, max_peer_weight=0.5)


def test_every_field_of_a_plan_has_a_bound() -> None:
    """A field that is added to the plan without one would be obeyed whatever it says."""
    bounded = {field.path for field in fields(2).values()}
    nested: dict[str, type[Record]] = {"sgd": Sgd, "compute": Compute, "sealed": Sealing}
    expected = {name for name, _ in Plan.CONTRACTS if name not in nested}
    expected |= {f"{outer}.{name}" for outer, kind in nested.items() for name, _ in kind.CONTRACTS}
    assert bounded == {f"plan.{name}" for name in expected - UNBOUNDED} | {"heartbeat_s"}


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (welcome(rounds=100_001), "plan.rounds"),
        (welcome(sgd=replace(SGD, learning_rate=1e3)), "plan.sgd.learning_rate"),
        (welcome(sgd=replace(SGD, epochs=101)), "plan.sgd.epochs"),
        (welcome(sgd=replace(SGD, momentum=0.99999)), "plan.sgd.momentum"),
        (welcome(sgd=replace(SGD, weight_decay=2.0)), "plan.sgd.weight_decay"),
        (welcome(sgd=replace(SGD, batch_size=2**20)), "plan.sgd.batch_size"),
        (welcome(sgd=replace(SGD, work_limit_s=1e9)), "plan.sgd.work_limit_s"),
        (welcome(compute=Compute(threads=3)), "plan.compute.threads"),
        (welcome(compute=Compute(evaluation_batch_size=2**20)), "plan.compute.evaluation_batch_size"),
        (welcome(heartbeat_s=0.09), "heartbeat_s"),
        (welcome(heartbeat_s=301.0), "heartbeat_s"),
        (welcome(options={f"o{number}": 1 for number in range(17)}), "plan.options"),
        (welcome(options={"self_weight": 1e7}), "plan.options.self_weight"),
        (welcome(strategy="some.module:Thing"), "plan.strategy"),
        (welcome(sealed=SEALED), "plan.sealed.max_peer_weight"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_built_in_bounds_hold_without_being_asked_for(asked: Welcome, path: str) -> None:
    allowance().refuse_excess(welcome())
    with pytest.raises(InvalidInput, match=rf"^{path}: got ") as caught:
        allowance().refuse_excess(asked)
    assert "To agree, join again with" in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "fits", "exceeds"),
    [
        ("rounds<=200", {"rounds": 200}, {"rounds": 201}),
        (" epochs <= 5 ", {"sgd": replace(SGD, epochs=5)}, {"sgd": replace(SGD, epochs=6)}),
        ("batch_size>=8", {"sgd": replace(SGD, batch_size=8)}, {"sgd": replace(SGD, batch_size=7)}),
        ("seed=7", {"seed": 7}, {"seed": 8}),
        ("mode=barrier", {"mode": "barrier"}, {"mode": "continuous"}),
        ("algorithm=fedap,fedbn", {"strategy": "fedbn"}, {"strategy": "fedavg"}),
        ("keep_momentum=false", {}, {"sgd": replace(SGD, keep_momentum=True)}),
    ],
)
def test_an_expression_takes_the_place_of_the_built_in_bound(
    expression: str, fits: dict[str, object], exceeds: dict[str, object]
) -> None:
    own = allowance(expression)
    own.refuse_excess(welcome(**fits))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="--allow"):
        own.refuse_excess(welcome(**exceeds))  # type: ignore[arg-type]


def test_an_expression_may_widen_a_bound_too() -> None:
    wide = allowance("threads<=64")
    wide.refuse_excess(welcome(compute=Compute(threads=64)))
    with pytest.raises(InvalidInput, match="at most 64"):
        wide.refuse_excess(welcome(compute=Compute(threads=65)))


def test_settings_that_a_plan_leaves_at_their_default_are_bounded_as_well() -> None:
    """FedAP's self_weight is 0.5 unless a plan says otherwise; an algorithm without such a setting is not concerned."""
    own = allowance("option.self_weight>=0.6", "option.full_covariance=false")
    with pytest.raises(InvalidInput, match=r"self_weight: got 0\.5"):
        own.refuse_settings(make_strategy("fedap"))
    own.refuse_settings(make_strategy("fedap", {"self_weight": 0.6}))
    own.refuse_settings(make_strategy("fedavg"))
    with pytest.raises(InvalidInput, match="full_covariance: got true, expected false"):
        own.refuse_settings(make_strategy("fedap", {"self_weight": 0.6, "full_covariance": True}))


def test_a_named_algorithm_is_the_only_one() -> None:
    own = allowance(algorithm="fedap")
    own.refuse_excess(welcome())
    with pytest.raises(InvalidInput, match="--algorithm"):
        own.refuse_excess(welcome(strategy="fedavg"))
    allowance(algorithm="mine.own:Way", trusted=("mine.own:Way",)).refuse_excess(welcome(strategy="mine.own:Way"))


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("ronds<=3", "Did you mean 'rounds'"),
        ("rounds<3", "FIELD<=NUMBER"),
        ("rounds", "FIELD<=NUMBER"),
        ("rounds<=many", "a finite number"),
        ("rounds<=nan", "a finite number"),
        ("rounds<=inf", "a finite number"),
        ("mode<=barrier", "= and one of barrier, continuous"),
        ("mode=async", "= and one of barrier, continuous"),
        ("share=samples", "share=class_counts"),
        ("algorithm=fedpa", "fedavg"),
        ("", "FIELD<=NUMBER"),
        ("rounds<=3; import os", "a finite number"),
    ],
)
def test_a_wrong_expression_says_what_would_be_right(expression: str, words: str) -> None:
    with pytest.raises(InvalidInput, match="allow") as caught:
        allowance(expression)
    assert words in str(caught.value)


def test_agreeing_to_class_tables_is_a_word_of_the_same_grammar() -> None:
    assert allowance("share=class_counts").shares_class_counts
    assert not allowance().shares_class_counts


def test_lines_for_people_name_every_bound_and_who_set_it() -> None:
    lines = allowance("rounds<=200", algorithm="fedap").lines()
    assert "rounds: at least 1 and at most 200 (--allow)" in lines
    assert "algorithm: fedap (--algorithm)" in lines
    assert "heartbeat_s: at least 0.1 and at most 300 (built in)" in lines


def test_more_of_one_peer_than_the_default_is_taken_only_where_the_operator_agrees() -> None:
    allowance("max_peer_weight<=0.5").refuse_excess(welcome(sealed=SEALED))
    with pytest.raises(InvalidInput, match=r"at most 0.1, as allowed here \(--allow\)"):
        allowance("max_peer_weight<=0.1").refuse_excess(welcome(sealed=replace(SEALED, max_peer_weight=0.2)))


def test_scores_in_clear_are_refused_where_the_operator_wants_them_sealed() -> None:
    allowance("scores=sealed").refuse_excess(welcome(sealed=replace(SEALED, max_peer_weight=0.2, scores="sealed")))
    with pytest.raises(InvalidInput, match=r"plan.sealed.scores: got clear, expected sealed"):
        allowance("scores=sealed").refuse_excess(welcome(sealed=replace(SEALED, max_peer_weight=0.2)))
