"""Messages of a round: the coordinator's orders (anchor, train, finish) and the reports that answer them.

When a round opens and closes is policy and must not be known here.
"""

from __future__ import annotations

from typing import Annotated

from protocol.contracts import one_of, real, record
from protocol.message_base import (
    FROM_COORDINATOR,
    FROM_PARTICIPANT,
    Message,
    OptionalTensors,
    PeerWeights,
    RequiredTensors,
    Scores,
)
from protocol.plan import Count, RoundNo, RunId, StrategyName


@record
class Anchor(Message):
    """Order: measure the inputs of your layers under this model, or only take it as the one to start from.

    run: the run.
    round_no: the round that waits for the statistics.
    measure: which statistics, by the algorithm's name for them; `none` is answered by an empty set.
    weights: the anchor, all tensors; nil is the initial model; sealed where sealed warm-up rounds made it.
    uploads: what a sealed anchor was mixed from, as in `train`.
    """

    KIND = "anchor"
    SENDERS = FROM_COORDINATOR

    run: RunId
    round_no: RoundNo
    measure: StrategyName
    weights: OptionalTensors
    uploads: OptionalTensors = None


@record
class Stats(Message):
    """Report: exact moments of the inputs of each measured layer; never activations, never samples.

    run: the run.
    round_no: the round of the order.
    samples: training samples measured, or there where none are asked for.
    moments: per layer `NAME/count` (int64), `NAME/mean`, `NAME/variance` and perhaps `NAME/covariance` (float64).
    """

    KIND = "stats"
    SENDERS = FROM_PARTICIPANT

    run: RunId
    round_no: RoundNo
    samples: Count
    moments: RequiredTensors


@record
class Train(Message):
    """Order: evaluate these weights as delivered, train on from them, report. Delivers the round before.

    run: the run.
    round_no: the round.
    phase: what the round is for: `warmup`, or a name that the algorithm gives.
    measure: statistics to send along with the update, by the algorithm's name for them; `none` for no statistics.
    weights: the shared tensors mixed for this participant; an empty set where everything stays home.
    uploads: of a sealed run: whose row it is, and every upload that went into it; nil where the weights are not sealed.
    peers: sealed statistics by member, for whoever has to compute its row of W; nil otherwise.
    """

    KIND = "train"
    SENDERS = FROM_COORDINATOR

    run: RunId
    round_no: RoundNo
    phase: StrategyName
    measure: StrategyName
    weights: RequiredTensors
    uploads: OptionalTensors = None
    peers: OptionalTensors = None


@record
class Update(Message):
    """Report: the shared tensors after local training, and how good the delivered model was.

    run: the run.
    round_no: the round of the order.
    steps: optimiser steps made; fewer than the plan's when the work limit struck.
    train_loss: mean loss over the last epoch; nil when it is not finite or nothing was trained.
    scores: evaluations, where the plan asks for one.
    weights: the shared tensors; an empty set where everything stays home.
    statistics: as in `stats`, when the order asked for them; nil otherwise.
    tables: class counts and confusion matrices, when the participant agreed to share them; nil otherwise.
    row: the row of W that the participant requests, by member (int64), when the order brought `peers`; nil otherwise.
    """

    KIND = "update"
    SENDERS = FROM_PARTICIPANT

    run: RunId
    round_no: RoundNo
    steps: Count
    train_loss: Annotated[float, real(0.0)] | None
    scores: Scores
    weights: RequiredTensors
    statistics: OptionalTensors = None
    tables: OptionalTensors = None
    row: OptionalTensors = None


@record
class Finish(Message):
    """Order: the run is over. Brings the last personal weights; answered by goodbye.

    run: the run.
    round_no: rounds this participant was ordered to train.
    reason: why the run ended.
    weights: the shared tensors mixed for this participant; nil when the run ended before any.
    uploads: as in `train`.
    mixed_from: this participant's row of W: of which updates these weights were mixed, the heaviest first; empty where
        nothing was mixed.
    similarity: of the participant's statistics to those of the member most like it, 1 for equal ones; nil where the
        algorithm does not tell.
    """

    KIND = "finish"
    SENDERS = FROM_COORDINATOR

    run: RunId
    round_no: RoundNo
    reason: Annotated[str, one_of("rounds", "converged", "requested", "aborted")]
    weights: OptionalTensors
    uploads: OptionalTensors = None
    mixed_from: PeerWeights = ()
    similarity: Annotated[float, real(0.0, 1.0)] | None = None


@record
class Goodbye(Message):
    """Report: the last model has arrived; how good it is.

    run: the run.
    round_no: the round of the order.
    scores: evaluations of the last model.
    tables: as in `update`.
    """

    KIND = "goodbye"
    SENDERS = FROM_PARTICIPANT

    run: RunId
    round_no: RoundNo
    scores: Scores
    tables: OptionalTensors = None
