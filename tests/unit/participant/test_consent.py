"""Claims about orders under a plan: what may be asked for follows from the plan alone; pure, message by message."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from participant.decisions.allowance import parse_allowance
from participant.decisions.consent import Consent, Terms, digest_of, terms_text
from participant.record.agreement import keep_agreement
from participant.record.disk import Disk
from participant.record.private_state import RunState
from participant.training.soundness import unsound
from protocol.messages import Anchor, Finish, Plan, Train, Welcome
from protocol.tensors import Layout, TensorSet
from tests.unit.participant.test_home_run import INITIAL, RUN, SPEC, plan, shared, whole

CONSENT = Consent(spec=SPEC, allowance=parse_allowance(("warmup_rounds<=2",), cores=2), name="c1")
HALVED = TensorSet.of_flat(shared(INITIAL).layout, shared(INITIAL).flat(), "f16")
SHARED, EVERYTHING, WHOLE = shared(INITIAL), shared(INITIAL, "fedavg"), whole(INITIAL)


def welcome(what: Plan | None = None, **others: object) -> Welcome:
    fields: dict[str, object] = {"run": RUN, "participant": "c1", "round_no": 0, "heartbeat_s": 1.0, "initial": WHOLE}
    return Welcome(plan=what or plan(), **{**fields, **others})  # type: ignore[arg-type]


def terms(what: Plan | None = None) -> Terms:
    return CONSENT.terms(welcome(what))


def train(round_no: int, *, phase: str = "mixed", measure: str = "none", weights: TensorSet = SHARED) -> Train:
    return Train(run=RUN, round_no=round_no, phase=phase, measure=measure, weights=weights)


def anchor(round_no: int = 0, *, measure: str = "bn-inputs", weights: TensorSet | None = None) -> Anchor:
    return Anchor(run=RUN, round_no=round_no, measure=measure, weights=weights)


WARM = plan(anchor="warmup", warmup_rounds=2)
LATE = plan("f-fedap", rounds=6)
"""Rounds 0 and 1 train as FedBN, round 2 measures running statistics, rounds 3 to 5 mix."""


@pytest.mark.parametrize(
    ("what", "order"),
    [
        (plan(), train(0)),
        (plan(), train(3)),
        (plan(mode="continuous"), train(7)),
        (plan(), anchor()),
        (plan(), anchor(4)),
        (plan(anchor="file"), anchor(weights=WHOLE)),
        (plan("d-fedap"), anchor(measure="head-inputs")),
        (WARM, train(1, phase="warmup", weights=EVERYTHING)),
        (WARM, train(2)),
        (WARM, anchor(2, weights=WHOLE)),
        (LATE, train(1, phase="fedbn")),
        (LATE, train(2, measure="running")),
        (LATE, train(4, measure="running")),
        (LATE, train(4)),
        (plan("fedavg", start_from="anchor", anchor="file"), anchor(measure="none", weights=WHOLE)),
        (plan(), Finish(run=RUN, round_no=1, reason="requested", weights=SHARED)),
        (plan(), Finish(run=RUN, round_no=4, reason="rounds", weights=None)),
    ],
)
def test_what_an_honest_coordinator_orders_is_in_the_plan(what: Plan, order: Train | Anchor | Finish) -> None:
    assert terms(what).refusal(order) is None


@pytest.mark.parametrize(
    ("what", "order", "code", "words"),
    [
        (plan(), train(0, phase="warmup", weights=EVERYTHING), "bad-field", "got warmup, expected mixed"),
        (plan(), train(0, phase="fedbn"), "bad-field", "got fedbn, expected mixed"),
        (plan(), train(0, measure="running"), "bad-field", "got running, expected none"),
        (plan(), train(0, weights=EVERYTHING), "wrong-tensors", "expected the plan's"),
        (plan(), train(0, weights=HALVED), "bad-field", "f16"),
        (plan(), train(4), "bad-round", "the plan has 4 rounds"),
        (plan(mode="continuous"), train(100_000), "bad-round", "this participant allows 100000 rounds"),
        (plan(), anchor(measure="head-inputs"), "bad-field", "expected bn-inputs"),
        (plan(), anchor(measure="none"), "bad-field", "expected bn-inputs"),
        (plan(), anchor(weights=WHOLE), "bad-field", "under the initial model"),
        (plan(), anchor(5), "bad-round", "from 0 to 4"),
        (plan("fedavg"), anchor(), "bad-field", "fedavg measures nothing"),
        (plan(anchor="file"), anchor(weights=SHARED), "wrong-tensors", "expected the plan's"),
        (WARM, train(2, phase="warmup", weights=EVERYTHING), "bad-field", "expected mixed"),
        (WARM, train(1), "bad-field", "expected warmup"),
        (WARM, anchor(1, weights=WHOLE), "bad-round", "from 2 to 4"),
        (LATE, train(1, phase="fedbn", measure="running"), "bad-field", "expected none"),
        (LATE, train(0), "bad-field", "expected fedbn"),
        (plan(), Finish(run=RUN, round_no=4, reason="rounds", weights=EVERYTHING), "wrong-tensors", "finish"),
    ],
)  # fmt: skip
def test_what_the_plan_does_not_know_is_refused_with_a_sentence(
    what: Plan, order: Train | Anchor | Finish, code: str, words: str
) -> None:
    refusal = terms(what).refusal(order)
    assert refusal is not None
    assert refusal.code == code
    assert words in refusal.reason


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (welcome(run="current"), "welcome.run"),
        (welcome(participant="c2"), "welcome.participant: got c2"),
        (welcome(plan(shared_layout="00" * 16)), "plan.shared_layout"),
        (welcome(plan(model_layout="00" * 16)), "plan.model_layout"),
        (welcome(initial=SHARED), "welcome.initial"),
        (welcome(plan(options={"colour": "red"})), "option of fedap: got colour"),
        (welcome(plan(options={"self_weight": 2})), "self_weight: got 2"),
    ],
)
def test_what_is_not_this_participants_run_is_not_agreed_to(asked: Welcome, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        CONSENT.terms(asked)


def test_code_that_a_plan_names_is_not_imported_unless_it_is_listed(tmp_path: Path) -> None:
    """With the bound on names out of the way, the second lock holds by itself."""
    (tmp_path / "evil_strategy.py").write_text(
        "from fedap_core.strategies.fedap import FedAp\nclass Way(FedAp):\n    pass\n"
    )
    sys.path.insert(0, str(tmp_path))
    name = "evil_strategy:Way"
    asked = welcome(replace(plan(), strategy=name))
    try:
        open_gate = parse_allowance((), cores=2, trusted=(name,))
        with pytest.raises(InvalidInput, match="Nothing was imported"):
            replace(CONSENT, allowance=open_gate).terms(asked)
        assert "evil_strategy" not in sys.modules
        trusting = replace(CONSENT, allowance=open_gate, trusted=frozenset({name}))
        assert trusting.terms(asked).refusal(train(0)) is None
        assert "evil_strategy" in sys.modules
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("evil_strategy", None)


def test_a_plan_that_changes_under_the_same_run_name_waits_for_the_operator(tmp_path: Path) -> None:
    files = RunState(tmp_path, SPEC, Disk())
    first, changed = welcome(), welcome(plan(rounds=9))
    assert keep_agreement(files, first)
    assert not keep_agreement(files, first)
    digest = digest_of(terms_text(changed))
    with pytest.raises(InvalidInput, match=f"rounds 4 → 9.*--accept-plan {digest}"):
        keep_agreement(files, changed)
    with pytest.raises(InvalidInput, match="rounds 4 → 9"):
        keep_agreement(files, changed, accepted="0" * 16)
    with pytest.raises(InvalidInput, match="participant c1 → c2"):
        keep_agreement(files, welcome(participant="c2"))
    assert keep_agreement(files, changed, accepted=digest)
    assert not keep_agreement(files, changed)
    with pytest.raises(InvalidInput, match="rounds 9 → 4"):
        keep_agreement(files, first)


LAYOUT = Layout.of({"w": np.zeros(4, dtype=np.float32)})


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([0.0, 1.0, -1.0, 99.0], None),
        ([0.0, np.nan, 0.0, 0.0], "not-finite"),
        ([0.0, np.inf, 0.0, 0.0], "not-finite"),
        ([0.0, 0.0, 0.0, -1.1e6], "out-of-range"),
        ([250.0, 0.0, 0.0, 0.0], "too-far"),
    ],
)
def test_delivered_values_are_judged_by_size_and_by_the_local_model(values: list[float], code: str | None) -> None:
    """Own values are 1: a tensor may be 100 away. (99 - 1) / sqrt(4) is 49; (250 - 1) / sqrt(4) is 124.5."""
    own = np.ones(4, dtype=np.float32)
    found = unsound(np.array(values, dtype=np.float32), LAYOUT, "train 1", own=own)
    assert (None if found is None else found.code) == code


def test_a_model_that_there_is_nothing_to_compare_with_is_judged_by_its_size_alone() -> None:
    far = np.full(4, 5e5, dtype=np.float32)
    assert unsound(far, LAYOUT, "train 1") is None
    assert unsound(far, LAYOUT, "train 1", own=np.ones(4, dtype=np.float32)) is not None


def test_a_running_variance_may_be_as_large_as_the_square_of_a_value() -> None:
    squares = np.full(4, 9e11, dtype=np.float32)
    assert unsound(squares, LAYOUT, "train 1") is not None
    assert unsound(squares, LAYOUT, "train 1", variances={"w"}) is None
    assert unsound(2 * squares, LAYOUT, "train 1", variances={"w"}) is not None
