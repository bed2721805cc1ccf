"""Decides which score of a report counts, and to which round's model it belongs: one rule for all readers.

A report may have scores of several models: the one that the participant would keep if the run ended now, the delivered
one, the one trained from it. They count in this order (`fedap_core.workspace`). All but the trained one result from the
round before the report's. Nothing is trained after `finish`: in a goodbye the trained model, too, is of the round
before, and stands for last weights that the member did not use.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.decisions import facts
from fedap_core.choosing import ALONE
from fedap_core.workspace import TRAINED, headline_rank
from protocol.messages import Score


def scores_by_split(scores: Sequence[Score]) -> dict[str, Score]:
    """Return the score that counts for each split of the data; splits without samples are left out."""
    own = [score for score in scores if score.model != ALONE]
    headline_last = sorted(own, key=lambda score: -headline_rank(score.model))
    return {score.split: score for score in headline_last if score.samples > 0}


def alone_scores(report: facts.UpdateAccepted | facts.GoodbyeAccepted) -> dict[str, Score]:
    """Return by split the scores of the model that the member trained on its own data only; empty if not reported."""
    return {one.split: one for one in report.scores if one.model == ALONE and one.samples > 0}


def scored(report: facts.UpdateAccepted | facts.GoodbyeAccepted, split: str) -> tuple[int, Score] | None:
    """Return (round of the scored model, score) on this split of the data; None if the report has none."""
    score = scores_by_split(report.scores).get(split)
    if score is None:
        return None
    is_earlier = score.model != TRAINED or isinstance(report, facts.GoodbyeAccepted)
    return report.round_no - is_earlier, score
