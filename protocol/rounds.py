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
    """Order: measure the inputs of your layers under this model, or only start from it.

    run: the run.
    round_no: the round that waits for the statistics.
    measure: which statistics, by the name that the algorithm uses; `none` is answered by an empty set.
    weights: the anchor, all tensors; nil: the initial model; sealed if it comes from sealed warm-up rounds.
    uploads: the uploads that a sealed anchor was mixed from, as in `train`.
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
    samples: number of training samples measured, or available if nothing is measured.
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
    """Order: evaluate these weights as delivered, continue training from them, report. Delivers the previous round.

    run: the run.
    round_no: the round.
    phase: purpose of the round: `warmup`, or a name that the algorithm defines.
    measure: statistics to send with the update, by the name that the algorithm uses; `none`: no statistics.
    weights: the shared tensors mixed for this participant; an empty set if nothing is shared.
    uploads: in a sealed run: the owner of the row, and every upload in it; nil: the weights are not sealed.
    peers: sealed statistics by member, for a member that has to compute its row of W; nil otherwise.
    base: the weights are the difference to what this participant reported in that round; nil: they are values.
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
    base: RoundNo | None = None


@record
class Update(Message):
    """Report: the shared tensors after local training, and the scores of the delivered model.

    run: the run.
    round_no: the round of the order.
    steps: optimiser steps made; fewer than planned if the work limit was reached.
    train_loss: mean loss over the last epoch; nil if it is not finite or nothing was trained.
    scores: evaluations, if the plan asks for them.
    weights: the shared tensors; an empty set if nothing is shared.
    statistics: as in `stats`, if the order asked for them; nil otherwise.
    tables: class counts and confusion matrices, if the participant agreed to share them; nil otherwise.
    row: the row of W that the participant requests, by member (int64), if the order had `peers`; nil otherwise.
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
    """Order: the run is over. Delivers the last personal weights; answered by goodbye.

    run: the run.
    round_no: number of rounds this participant was ordered to train.
    reason: why the run ended.
    weights: the shared tensors mixed for this participant; nil if the run ended before any were mixed.
    uploads: as in `train`.
    mixed_from: this participant's row of W: the updates that these weights were mixed from, heaviest first; empty if
        nothing was mixed.
    similarity: of the participant's statistics to those of the most similar member, 1 if they are equal; nil if the
        algorithm does not compute it.
    base: as in `train`.
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
    base: RoundNo | None = None


@record
class Goodbye(Message):
    """Report: the last model has arrived, with its scores.

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
