"""Actions that the participant's machine returns. The shell performs a list of them in order; nothing here decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from protocol.messages import Anchor, Finish, Message, Train, Welcome

Order = Anchor | Train | Finish
"""A message in which the coordinator asks for work."""


@dataclass(frozen=True, kw_only=True)
class OpenLine:
    """Connect with a fresh socket."""


@dataclass(frozen=True, kw_only=True)
class CloseLine:
    """Drop the connection and everything in transit on it."""


@dataclass(frozen=True, kw_only=True)
class Emit:
    """Send a message."""

    message: Message


@dataclass(frozen=True, kw_only=True)
class DropPayload:
    """Stop offering the payload of our latest report: the coordinator holds it."""


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Prepare the model and the data for this run, and look up how much of it is already done."""

    welcome: Welcome


@dataclass(frozen=True, kw_only=True)
class Work:
    """Carry out an order; its outcome is reported as an event."""

    order: Order


@dataclass(frozen=True, kw_only=True)
class StopWork:
    """Ask the work in progress to end after its current batch."""


@dataclass(frozen=True, kw_only=True)
class Log:
    """Write a log entry: `noun.verb` and facts."""

    name: str
    facts: Mapping[str, object] = field(default_factory=dict)
    warn: bool = False


@dataclass(frozen=True, kw_only=True)
class End:
    """Exit the process with this code; `reason` is shown to the user."""

    code: int
    reason: str


Action = OpenLine | CloseLine | Emit | DropPayload | Prepare | Work | StopWork | Log | End
