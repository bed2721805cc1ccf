"""Events of a participant, created by the shell and handled by the machine."""

from __future__ import annotations

from dataclasses import dataclass

from participant.decisions.consent import Refusal
from protocol.codec import require_complete
from protocol.messages import Goodbye, Message, Stats, Update

Report = Stats | Update | Goodbye
"""A message that answers an order."""


@dataclass(frozen=True, kw_only=True)
class LineOpened:
    """The connection is established, including its handshake."""


@dataclass(frozen=True, kw_only=True)
class LineLost:
    """The connection broke or could not be established."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class MessageReceived:
    """A legal message from the coordinator arrived with all its payloads. LocalProtocolError if one is missing."""

    message: Message

    def __post_init__(self) -> None:
        require_complete(self.message)


@dataclass(frozen=True, kw_only=True)
class Announced:
    """A legal message from the coordinator whose payloads `AgentMachine.wants` declined: they will not arrive."""

    message: Message


@dataclass(frozen=True, kw_only=True)
class NotUnderstood:
    """The coordinator sent something that is not a message, or one that it may not send."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class PayloadMoved:
    """A slice of a payload arrived: the coordinator is alive, and its message is on the way."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The model and the data are ready for the run, and the work finished before a restart is known.

    report: the latest report from before the restart. train_samples, test_samples: counts under the run's own split.
    """

    run: str
    report: Report | None
    train_samples: int
    test_samples: int


@dataclass(frozen=True, kw_only=True)
class Reported:
    """An order has been carried out, and everything that must survive a crash is on disk.

    refused: why the delivered weights were not used; the participant's own model was used instead.
    """

    report: Report
    refused: Refusal | None = None


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """Work was stopped on request before it finished; nothing of it remains."""


@dataclass(frozen=True, kw_only=True)
class Declined:
    """An order was not carried out because its payload was refused; nothing has changed."""

    refused: Refusal


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Work is impossible, and a retry would not help. leaves: whether to send `leave`, so that the run continues."""

    reason: str
    leaves: bool = True


@dataclass(frozen=True, kw_only=True)
class LeaveRequested:
    """The operator wants the participant to leave."""

    reason: str
    code: int


@dataclass(frozen=True, kw_only=True)
class Ticked:
    """Time has passed; the machine's deadline may have passed too."""


FromWork = Prepared | Reported | Stopped | Declined | Failed
FromLine = LineOpened | LineLost | MessageReceived | Announced | NotUnderstood | PayloadMoved
Event = FromLine | FromWork | LeaveRequested | Ticked
