"""Scenarios about orders: phases, measures, tensors and rounds outside the plan, and harmful models."""

from __future__ import annotations

from typing import Any

import numpy as np

from protocol.messages import Plan
from protocol.tensors import TensorSet
from scripts.drill.hostile.false_coordinator import Play, Scenario
from scripts.drill.hostile.scripted_coordinator import FalseCoordinator, ScenarioData

REFUSED = "The order is refused with an `error`, nothing is done for it, and the run continues as planned."
KEPT = "The weights are refused; it continues from its own model, which stays on disk."
LAST_KEPT = "The weights are refused; its own last model is kept as the personal one, and `export` says so."
IGNORED = "The message belongs to nothing that is agreed; it is dropped."


def _file_plan(data: ScenarioData) -> Plan:
    """Return a plan of FedAP that measures under a model sent by the coordinator."""
    return data.plan(anchor="file")


def ordering(**order: Any) -> Play:  # noqa: ANN401
    """Send a train order for round 0 that differs from the plan; then run as planned."""

    def play(session: FalseCoordinator) -> None:
        session.welcome()
        session.attempt(session.train(**{"round_no": 0, **order}))
        session.go_on_honestly()

    return play


def anchoring(**order: Any) -> Play:  # noqa: ANN401
    def play(session: FalseCoordinator) -> None:
        session.welcome()
        session.attempt(session.anchor(**order))
        session.go_on_honestly()

    return play


def _all_tensors(session: FalseCoordinator) -> None:
    session.welcome()
    session.attempt(session.train(0, weights=session.data.weights(everything=True)))
    session.go_on_honestly()


def _warmup(session: FalseCoordinator) -> None:
    session.welcome()
    session.attempt(session.train(0, phase="warmup", weights=session.data.weights(everything=True)))
    session.go_on_honestly()


def _warmup_again_and_again(session: FalseCoordinator) -> None:
    session.welcome()
    everything = session.data.weights(everything=True)
    for _ in range(8):
        session.send(session.train(0, phase="warmup", weights=everything))


def _foreign_tensors(session: FalseCoordinator) -> None:
    session.welcome()
    session.attempt(session.train(0, weights=TensorSet.of({"probe": np.zeros(7, dtype=np.float32)})))
    session.go_on_honestly()


def _anchor_with_model(session: FalseCoordinator) -> None:
    session.welcome()
    session.attempt(session.anchor(weights=session.data.whole(lambda values: values + 1)))
    session.go_on_honestly()


def _anchor_again(session: FalseCoordinator) -> None:
    session.welcome()
    session.measure()
    session.send(session.anchor(1))
    session.receive("stats")
    session.go_on_honestly(1)


def _another_anchor(session: FalseCoordinator) -> None:
    session.welcome(_file_plan(session.data))
    session.send(session.anchor(weights=session.data.whole()))
    session.receive("stats")
    session.attempt(session.anchor(1, weights=session.data.whole(lambda values: values + 0.5)))
    session.go_on_honestly(1)


def _nan_anchor(session: FalseCoordinator) -> None:
    session.welcome(_file_plan(session.data))
    session.attempt(session.anchor(weights=session.data.whole(lambda values: values * np.nan)))
    session.go_on_honestly()


def _early_running(session: FalseCoordinator) -> None:
    """With three rounds f-FedAP would measure in round 0; with six, as in this plan, it measures in round 2."""
    session.welcome(session.data.plan(strategy="f-fedap", rounds=6))
    session.attempt(session.train(0, phase="fedbn", measure="running"))
    session.send(session.train(0, phase="fedbn"))
    session.receive("update")
    session.end_honestly(1)


def delivering(value: float) -> Play:
    """Run a round as planned, then one whose weights all have one value."""

    def play(session: FalseCoordinator) -> None:
        session.welcome()
        session.round(0)
        session.round(1, weights=session.data.weights(value))
        session.end_honestly(2)

    return play


def _first_delivery(session: FalseCoordinator) -> None:
    session.welcome()
    session.round(0, weights=session.data.weights(9e5))
    session.end_honestly(1)


def finishing(value: float | None, *, everything: bool = False) -> Play:
    def play(session: FalseCoordinator) -> None:
        session.welcome()
        session.round(0)
        session.end_honestly(1, weights=session.data.weights(value, everything=everything))

    return play


def _poison_again_and_again(session: FalseCoordinator) -> None:
    session.welcome(session.data.plan(rounds=20))
    for round_no in range(8):
        session.round(round_no, weights=session.data.weights(float("nan")))


def _finish_in_the_middle(session: FalseCoordinator) -> None:
    session.welcome()
    session.round(0)
    session.send(session.finish(1, None, reason="aborted"))
    session.part(1)


def _finish_then_train(session: FalseCoordinator) -> None:
    session.welcome()
    session.round(0)
    session.send(session.finish(1, session.data.weights()), session.train(1), session.anchor(2))
    session.part(1)


def _replayed(session: FalseCoordinator) -> None:
    session.welcome()
    session.round(0)
    session.round(1)
    session.send(session.train(0, weights=session.data.weights(0.5)), session.anchor(0), session.train(1))
    session.end_honestly(2)


def _refused(name: str, does: str, play: Play, error_code: str, **others: Any) -> Scenario:  # noqa: ANN401
    return Scenario(name=name, does=does, outcome=REFUSED, play=play, error_code=error_code, **others)


def _kept(name: str, does: str, play: Play, error_code: str, **others: Any) -> Scenario:  # noqa: ANN401
    return Scenario(**{"name": name, "does": does, "outcome": KEPT, "play": play, "error_code": error_code, **others})


ORDERS: tuple[Scenario, ...] = (
    _refused("warmup", "It orders a warm-up round, with batch norm, that no plan has.", _warmup, "bad-field"),
    _refused("phase", "It orders a round of another phase.", ordering(phase="fedbn"), "bad-field"),
    _refused("running", "It asks for running statistics that FedAP does not need.",
             ordering(measure="running"), "bad-field"),
    _refused("early-running", "It asks for f-FedAP's running statistics before their round.",
             _early_running, "bad-field", algorithm="f-fedap"),
    _refused("all-tensors", "Its weights have batch norm, too.", _all_tensors, "wrong-tensors"),
    _refused("foreign-tensors", "Its weights are a tensor of its own.", _foreign_tensors, "wrong-tensors"),
    _refused("round-beyond", "It orders a round after the last.", ordering(round_no=3), "bad-round"),
    _refused("round-far", "It orders round 999,999.", ordering(round_no=999_999), "bad-round"),
    _refused("head-inputs", "It asks for the inputs of the classification layer.",
             anchoring(measure="head-inputs"), "bad-field"),
    _refused("anchor-none", "It gives an anchor only to be taken over.", anchoring(measure="none"), "bad-field"),
    _refused("anchor-late", "It asks to measure after the last round.", anchoring(round_no=9), "bad-round"),
    _refused("anchor-model", "It brings a model to measure under; the plan says the initial one.",
             _anchor_with_model, "bad-field"),
    _refused("anchor-moved", "It asks to measure a second time, under another model.",
             _another_anchor, "bad-field", measures=1),
    _refused("anchor-nan", "It asks to measure under NaN.", _nan_anchor, "not-finite"),
    Scenario(name="anchor-again", does="It asks to measure a second time, under the same model.",
             outcome="It measures again: the same numbers, so nothing new leaves.", play=_anchor_again, measures=2),
    Scenario(name="habit", does="It orders warm-up rounds again and again.",
             outcome="After eight refusals it leaves and ends with code 2.", play=_warmup_again_and_again,
             code=2, error_code="bad-field", words="keeps sending", updates=0),
    _kept("train-nan", "It delivers NaN in the middle of a run.", delivering(float("nan")), "not-finite", updates=2),
    _kept("train-infinite", "It delivers infinities.", delivering(float("inf")), "not-finite", updates=2),
    _kept("train-huge", "It delivers values of 1e30.", delivering(1e30), "out-of-range", updates=2),
    _kept("train-absurd", "It delivers values of 9e5.", delivering(9e5), "too-far", updates=2),
    _kept("train-first", "It delivers values of 9e5 in the first round.", _first_delivery, "too-far"),
    _kept("poison-habit", "It delivers NaN again and again.", _poison_again_and_again, "not-finite",
          outcome="Each is refused; after the eighth it leaves with its own model.", code=2, words="keeps sending",
          updates=8),
    _kept("finish-nan", "It ends the run with NaN.", finishing(float("nan")), "not-finite", outcome=LAST_KEPT),
    _kept("finish-huge", "It ends the run with values of 1e30.", finishing(1e30), "out-of-range", outcome=LAST_KEPT),
    _kept("finish-absurd", "It ends the run with values of 9e5.", finishing(9e5), "too-far", outcome=LAST_KEPT),
    _kept("finish-tensors", "It ends the run with batch norm among the weights.",
          finishing(None, everything=True), "wrong-tensors", outcome=LAST_KEPT),
    Scenario(name="finish-early", does="It ends the run in the middle and gives nothing.",
             outcome="A coordinator may end a run; its own last model is kept as the personal one.",
             play=_finish_in_the_middle),
    Scenario(name="finish-then-train", does="It orders rounds after the end.", outcome=IGNORED,
             play=_finish_then_train),
    Scenario(name="replay", does="It repeats old orders with other weights.",
             outcome="Orders that were carried out are never carried out again.", play=_replayed, updates=2),
)  # fmt: skip
