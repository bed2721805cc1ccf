"""Which step of a run an order or a report is, and which can come next. Pure, for `machine` alone."""

from __future__ import annotations

import enum

from participant.actions import Order
from participant.events import Report
from protocol.codec import offers
from protocol.messages import ORDERS, REPORTS, Message, Step


class Phase(enum.StrEnum):
    """Where a participant stands, for people; derived from the facts, never set."""

    OFFLINE = "offline"
    GREETING = "greeting"
    MEASURING = "measuring"
    IDLE = "idle"
    TRAINING = "training"
    DONE = "done"


def step_of(message: Order | Report) -> Step:
    """The step that an order or a report is."""
    return Step(kind=message.KIND, round_no=message.round_no)


def order_step_of(report: Report) -> Step:
    """The order that a report answers."""
    return Step(kind=ORDERS[REPORTS.index(report.KIND)], round_no=report.round_no)


def order_after(have: Step | None) -> Step | None:
    """The earliest order that can come after the one that is had; None after the last."""
    if have is None:
        return Step(kind="anchor", round_no=0)
    if have.kind == "finish":
        return None
    if have.kind == "anchor":
        return Step(kind="train", round_no=have.round_no)
    return Step(kind="anchor", round_no=have.round_no + 1)


def offered_bytes(message: Message) -> int:
    """The size of the largest payload that a message announces; 0 if it announces none."""
    return max((offer.size_bytes for offer in offers(message)), default=0)
