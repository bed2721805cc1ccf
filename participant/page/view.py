"""Turn an overview into a participant's page: the headline, the models side by side, the curve, the sent messages.

Pure: takes an overview, returns the values of the template.
"""

from __future__ import annotations

from fedap_core.choosing import ALONE, FEDERATED, FINE_TUNED, OWN
from participant.page.reading import HomeOverview
from protocol.host.web.curves import NARROW, CurveLine, curves, thinned
from protocol.host.web.live import Context

PARTS = ("stage", "models", "accuracy", "ledger")

_NAMES = {
    FEDERATED: "Together",
    OWN: "Without the last delivery",
    FINE_TUNED: "Together, fine-tuned",
    ALONE: "Alone",
}


def context_of(home: HomeOverview) -> Context:
    """Return everything that the template needs."""
    lines = [CurveLine(name="together", colour=0, points=thinned(home.scores), strong=True)] if home.scores else []
    alone = next((one.test for one in home.candidates if one.name == ALONE and one.test is not None), None)
    if lines and alone is not None:
        ends = home.scores[0][0], home.scores[-1][0]
        points = tuple((number, alone.accuracy) for number in dict.fromkeys(ends))
        lines.append(CurveLine(name="alone, now", colour=1, points=points))
    described = "Test accuracy of the delivered models by round"
    choice = home.choice if home.choice is not None and len(home.candidates) > 1 else None
    return {
        "home": home,
        "headline": headline(home),
        "shown_round": (home.federated_round or home.round) if home.finished else home.round,
        "done_percent": f"{100 * home.done:.1f}",
        "names": _NAMES,
        "rounds_of": {ALONE: home.alone_round} | dict.fromkeys((FEDERATED, OWN, FINE_TUNED), home.federated_round),
        "choice_words": [] if choice is None else [choice.sentence, choice.test_sentence],
        "is_better_alone": choice is not None and choice.name == ALONE and choice.is_clear,
        "curves_wide": curves(lines, described=described) if lines else None,
        "curves_narrow": curves(lines, described=described, frame=NARROW) if lines else None,
        "sent_bytes": sum(one.size_bytes for one in home.totals),
        "sent_messages": sum(one.messages for one in home.totals),
    }


def headline(home: HomeOverview) -> str:
    """Say in one sentence what the participant is doing."""
    if home.finished:
        return "The run is over; your model is in the state folder."
    if home.running is False:
        return "The participant is not running: start `join` again with the same state folder to continue."
    if home.run is None:
        return "Waiting for the coordinator."
    if not home.rounds:
        return "Waiting for the first round."
    return f"Round {home.round} of {home.rounds}: {'training' if home.done < 1 else 'waiting for the others'}."
