"""Which step of a run an order or a report is, which may follow, and a participant's position as text."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from participant.decisions.actions import Order
from participant.decisions.events import Report
from protocol.codec import offers
from protocol.messages import ORDERS, REPORTS, Message, Step


class Activity(enum.StrEnum):
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


def require_had(have: Step | None, *, kept: Step | None, report: Report | None, orders: Sequence[Order]) -> None:
    """AssertionError if something is kept, reported or worked on that lies behind the latest order that was had."""
    had = (-1, -1) if have is None else have.place
    if kept is not None and kept.place > had:
        raise AssertionError("an order is kept that was never had")
    if report is not None and step_of(report).place > had:
        raise AssertionError("a report without its order")
    if any(step_of(order).place > had for order in orders):
        raise AssertionError("an order that is not had")
