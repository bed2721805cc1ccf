"""Train a participant's own models: one on its own data alone, and the federated one after one more round of local
training.

They are trained while no order waits, evaluated on the same samples as the federated model, and saved after every
round. Neither changes a bit of what is sent; `fedap_core.choosing` decides which model is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import structlog

from fedap_core.choosing import ALONE, FINE_TUNED
from fedap_core.metrics import Evaluation
from fedap_core.nn.state import State
from fedap_core.workspace import HANDED_OVER
from participant.record.private_state import RunState, SavedRound
from participant.training.delivered import require_finite
from participant.training.local import LocalClient
from participant.training.outgoing import score_of
from participant.training.reports import saved_scores

log = structlog.get_logger()


def train_alone(
    make: Callable[[State], LocalClient],
    files: RunState,
    start: State,
    *,
    last: int,
    judged: Sequence[str],
    should_stop: Callable[[], bool],
    tell: bool,
) -> bool:
    """Train the model that is trained alone up to round `last`; return whether it got there.

    make: creates a client of the algorithm `base` with these values. A round that has to stop is trained again later,
    from its start. tell: log how much is left, because the user is waiting for it.
    """
    done = files.read_beside(ALONE)
    first = 0 if done is None else done.round_no + 1
    if first > last:
        return True
    if tell:
        log.info("alone.training", rounds_left=last + 1 - first, note="for comparison; interrupt to skip it")
    client = make(start if done is None else done.model)
    if done is not None and client.velocity is not None and "velocity" in done.extras:
        client.velocity.copy_(done.extras["velocity"])
    for round_no in range(first, last + 1):
        if should_stop():
            return False
        client.train(round_no, should_stop=should_stop)
        if should_stop():
            return False
        require_finite(client.state(), round_no)
        evaluations = {split: client.evaluate(split) for split in judged}
        extras = {} if client.velocity is None else {"velocity": client.velocity.clone()}
        facts = judged_facts(ALONE, evaluations)
        files.write_beside(
            SavedRound(kind=ALONE, round_no=round_no, phase="mixed", model=client.state(), extras=extras, facts=facts)
        )
    return True


def fine_tune(client: LocalClient, files: RunState, federated: SavedRound, judged: Sequence[str]) -> None:
    """Fine-tune a copy of the final model, once. client: one of the run's algorithm, with `finetune` set."""
    if files.read_beside(FINE_TUNED) is not None:
        return
    client.load(federated.model, federated.extras_of("home"))
    round_no = federated.round_no
    evaluations = {split: client.evaluate(split, HANDED_OVER, round_no=round_no) for split in judged}
    tuned = client.handed_over(round_no)
    facts = judged_facts(FINE_TUNED, evaluations)
    files.write_beside(SavedRound(kind=FINE_TUNED, round_no=round_no, phase="mixed", model=tuned, facts=facts))


def alone_scores(files: RunState) -> object:
    """Scores of the model trained alone so far, in the form that `reports.read_scores` reads."""
    alone = files.read_beside(ALONE)
    return [] if alone is None else alone.facts["scores"]


def judged_facts(model: str, evaluations: Mapping[str, Evaluation]) -> dict[str, object]:
    """Scores of one model and its results by class, both by split, as stored in a saved round."""
    scores = tuple(score_of(split, one, model=model) for split, one in evaluations.items())
    return {"scores": saved_scores(scores), "judged": judged_by_split(evaluations)}


def judged_by_split(evaluations: Mapping[str, Evaluation]) -> dict[str, dict[str, object]]:
    """By split and class: samples, correct predictions and all predictions; by split: AUROC and calibration error.
    For the model card; never sent."""
    return {
        split: {
            "samples": one.confusion.sum(axis=1).tolist(),
            "correct": one.confusion.diagonal().tolist(),
            "predicted": one.confusion.sum(axis=0).tolist(),
            "auroc": one.auroc,
            "calibration_error": one.calibration_error,
        }
        for split, one in evaluations.items()
    }
