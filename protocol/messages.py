"""The table of all messages. A message is a frozen type that validates itself when it is built; its docstring says what
it means and, line by line, what each field holds. SPEC.md is generated from these docstrings.

`conversation` decides in which order messages may be sent, `codec` how they are encoded.
"""

from __future__ import annotations

from protocol.membership import Hello, HelloRequired, Leave, Reject, Welcome
from protocol.message_base import (
    MOST_WEIGHTS,
    ORDERS,
    PLACE_IN_ROUND,
    REPORTS,
    Message,
    PeerWeight,
    Score,
    Side,
    Step,
)
from protocol.plan import Compute, Plan, Sealing, Sgd
from protocol.rounds import Anchor, Finish, Goodbye, Stats, Train, Update
from protocol.signals import Cancel, Error, Grant, Heartbeat, Slice

__all__ = [
    "KINDS",
    "MOST_WEIGHTS",
    "ORDERS",
    "PLACE_IN_ROUND",
    "REPORTS",
    "Anchor",
    "Cancel",
    "Compute",
    "Error",
    "Finish",
    "Goodbye",
    "Grant",
    "Heartbeat",
    "Hello",
    "HelloRequired",
    "Leave",
    "Message",
    "PeerWeight",
    "Plan",
    "Reject",
    "Score",
    "Sealing",
    "Sgd",
    "Side",
    "Slice",
    "Stats",
    "Step",
    "Train",
    "Update",
    "Welcome",
]

KINDS: dict[str, type[Message]] = {
    kind.KIND: kind
    for kind in (
        *(Hello, Welcome, Reject, HelloRequired, Leave),
        *(Anchor, Stats, Train, Update, Finish, Goodbye),
        *(Heartbeat, Error, Grant, Slice, Cancel),
    )
}
"""Every kind of message by its name on the wire."""
