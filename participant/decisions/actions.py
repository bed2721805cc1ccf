"""Actions of the participant's machine; the shell performs a list in order. Nothing here decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from protocol.messages import Anchor, Finish, Message, Train, Welcome

Order = Anchor | Train | Finish
"""What the coordinator may ask for."""


@dataclass(frozen=True, kw_only=True)
class OpenLine:
    """Connect with a fresh socket."""


@dataclass(frozen=True, kw_only=True)
class CloseLine:
    """Drop the connection and whatever was under way on it."""


@dataclass(frozen=True, kw_only=True)
class Emit:
    """Send a message."""

    message: Message


@dataclass(frozen=True, kw_only=True)
class LetGo:
    """The coordinator holds our latest report: its payload need not be offered any longer."""


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Make the model and the data ready for this run, and look up what has been finished of it."""

    welcome: Welcome


@dataclass(frozen=True, kw_only=True)
class Work:
    """Carry out an order; its end comes back as an event."""

    order: Order


@dataclass(frozen=True, kw_only=True)
class StopWork:
    """Ask the work in progress to end after its current batch."""


@dataclass(frozen=True, kw_only=True)
class Log:
    """Tell the operator: `noun.verb` and facts."""

    name: str
    facts: Mapping[str, object] = field(default_factory=dict)
    warn: bool = False


@dataclass(frozen=True, kw_only=True)
class End:
    """Leave the process with this exit code; `reason` is for a person."""

    code: int
    reason: str


Action = OpenLine | CloseLine | Emit | LetGo | Prepare | Work | StopWork | Log | End
