"""Claims about the table of stages: it knows every fact, every run can end, and what it does not have cannot happen."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.decisions import facts
from coordinator.decisions.stages import ABORTED, ANYWHERE, TABLE, ImpossibleFact, Stage, after, moves
from tests.architecture.stage_diagram import BEGIN, END, diagram

_ARCHITECTURE = Path(__file__).parents[3] / "ARCHITECTURE.md"


def test_every_fact_is_in_the_table_and_the_table_has_no_other_words() -> None:
    listed = {name for row in TABLE.values() for name in row} | ANYWHERE
    assert listed - {ABORTED} == facts.FACTS.keys()
    assert TABLE.keys() == set(Stage)


def test_every_stage_leads_to_an_end_and_no_end_leads_back() -> None:
    leaving = {stage: {following for one, _, following in moves() if one is stage} for stage in Stage}
    assert all({Stage.FINISHED, Stage.ABORTED} <= leaving[stage] for stage in Stage if not stage.is_over)
    assert not any(leaving[stage] for stage in Stage if stage.is_over)


def test_a_fact_that_cannot_follow_is_refused_with_what_was_expected() -> None:
    closed = facts.RoundClosed(round_no=0, reason="", reported=(), missing=())
    with pytest.raises(ImpossibleFact, match="RoundClosed while enrolling; expected one of Began, EnrolmentClosed"):
        after(Stage.ENROLLING, closed)


def test_a_finish_leads_to_the_stage_that_its_reason_says() -> None:
    assert after(Stage.TRAINING, facts.Finished(reason="aborted", sentence="")) is Stage.ABORTED
    assert after(Stage.AGGREGATING, facts.Finished(reason="rounds", sentence="")) is Stage.FINISHED


def test_the_diagram_of_the_architecture_is_the_one_that_the_table_gives() -> None:
    text = _ARCHITECTURE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == diagram()
