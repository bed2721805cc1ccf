"""Map orders and reports to steps of a run, compute which may follow, and name a participant's current activity."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from participant.decisions.actions import Order
from participant.decisions.events import Report
from protocol.codec import offers
from protocol.messages import ORDERS, REPORTS, Message, Step


class Activity(enum.StrEnum):
    """What a participant is doing, for display; derived from its state, never set."""

    OFFLINE = "offline"
    GREETING = "greeting"
    MEASURING = "measuring"
    IDLE = "idle"
    TRAINING = "training"
    DONE = "done"


def step_of(message: Order | Report) -> Step:
    """The step of an order or a report."""
    return Step(kind=message.KIND, round_no=message.round_no)


def order_step_of(report: Report) -> Step:
    """The order that a report answers."""
    return Step(kind=ORDERS[REPORTS.index(report.KIND)], round_no=report.round_no)


def order_after(have: Step | None) -> Step | None:
    """The earliest order that can follow the latest received one; None after the last."""
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


def require_had(have: Step | None, *, kept: Step | None, report: Report | None, orders: Sequence[Order]) -> None:
    """Raise AssertionError if anything kept, reported or worked on is later than the latest received order."""
    had = (-1, -1) if have is None else have.place
    if kept is not None and kept.place > had:
        raise AssertionError("an order is kept that was never had")
    if report is not None and step_of(report).place > had:
        raise AssertionError("a report without its order")
    if any(step_of(order).place > had for order in orders):
        raise AssertionError("an order that is not had")
