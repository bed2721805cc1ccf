"""Scenarios about traffic: floods, messages of the wrong side, foreign runs, unrequested transfers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from protocol.messages import (
    Cancel,
    Error,
    Grant,
    Heartbeat,
    HelloRequired,
    Leave,
    Message,
    Reject,
    Slice,
    Step,
    Welcome,
)
from scripts.drill.hostile.false_coordinator import Play, Scenario
from scripts.drill.hostile.scripted_coordinator import NAME, RUN, FalseCoordinator

DROPPED = "The messages are dropped; the run continues as planned."
FLOOD = 200
TRANSFER = "cd" * 16


def pouring(made: Callable[[FalseCoordinator], Sequence[Message]]) -> Play:
    """Send messages between the welcome and the first round."""

    def play(session: FalseCoordinator) -> None:
        session.welcome()
        session.send(*made(session))
        session.go_on_honestly()

    return play


def _foreign_run(session: FalseCoordinator) -> Sequence[Message]:
    return [
        replace(session.train(0), run="other"),
        replace(session.anchor(), run="other"),
        replace(session.finish(1, None), run="other"),
    ]


def _slices(_stage: FalseCoordinator) -> Sequence[Message]:
    return [Slice(transfer=TRANSFER, offset=0, data=memoryview(b"x" * 1000)) for _ in range(FLOOD)]


def _as_participant(session: FalseCoordinator) -> None:
    session.welcome()
    session.send(Leave(run=RUN, reason="as if it were you"))
    session.go_on_honestly()


def _hello_required(session: FalseCoordinator) -> None:
    """Request a hello again and again; the welcome after the last hello is accepted."""
    session.welcome()
    session.round(0)
    session.send(*[HelloRequired()] * 50)
    for _ in range(50):
        session.receive("hello")
    session.send(
        Welcome(run=RUN, participant=NAME, round_no=0, heartbeat_s=30.0, plan=session.data.plan(), initial=None)
    )
    session.end_honestly(1)


def _garbage(session: FalseCoordinator) -> None:
    session.welcome()
    for number in range(FLOOD):
        session.send_frames([bytes([number % 256]) * (number % 64 + 1)])
    session.go_on_honestly()


def _rejects(session: FalseCoordinator) -> None:
    session.welcome()
    session.round(0)
    session.send(*[Reject(code="quarantined", reason="get out")] * FLOOD)


def _step(kind: str, round_no: int) -> Step:
    return Step(kind=kind, round_no=round_no)


def _early_wants(_stage: FalseCoordinator) -> Sequence[Message]:
    kinds = ("update", "stats", "goodbye")
    return [Heartbeat(run=RUN, round_no=2, have=None, want=_step(kind, 2)) for kind in kinds] * 20


TRAFFIC: tuple[Scenario, ...] = (
    Scenario(name="foreign-run", does="Its orders belong to a run of another name.", outcome=DROPPED,
             play=pouring(_foreign_run)),
    Scenario(name="unasked-slices", does="It sends pieces of payloads that nobody fetches.", outcome=DROPPED,
             play=pouring(_slices)),
    Scenario(name="grants", does="It grants 4 GiB of a transfer that was never offered.", outcome=DROPPED,
             play=pouring(lambda _: [Grant(transfer=TRANSFER, received=0, until=2**32, again=True)] * FLOOD)),
    Scenario(name="cancels", does="It cancels transfers that do not exist, 200 times.", outcome=DROPPED,
             play=pouring(lambda _: [Cancel(transfer=TRANSFER, code="superseded")] * FLOOD)),
    Scenario(name="errors", does="It reports 200 errors about messages that were never sent.", outcome=DROPPED,
             play=pouring(lambda _: [Error(code="bad-field", reason="no", about=_step("update", 2))] * FLOOD)),
    Scenario(name="wanted-early", does="Its heartbeats want reports that were never ordered.", outcome=DROPPED,
             play=pouring(_early_wants)),
    Scenario(name="speaker", does="It sends a participant's messages.", outcome=DROPPED, play=_as_participant,
             error_code="wrong-speaker"),
    Scenario(name="garbage", does="It sends 200 malformed messages.", outcome=DROPPED, play=_garbage),
    Scenario(name="hello-required", does="It asks for a hello 50 times.",
             outcome="Each is answered with a hello, which has no more in it than the first.", play=_hello_required),
    Scenario(name="rejects", does="It rejects the participant 200 times in the middle of a run.",
             outcome="It ends with code 2 at the first; its own last model is on disk.", play=_rejects, code=2,
             words="quarantined"),
)  # fmt: skip
