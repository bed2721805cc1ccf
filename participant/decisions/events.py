"""Events of a participant, created by the shell and handled by the machine."""

from __future__ import annotations

from dataclasses import dataclass

from participant.decisions.consent import Refusal
from protocol.codec import require_complete
from protocol.messages import Goodbye, Message, Stats, Update

Report = Stats | Update | Goodbye
"""What answers an order."""


@dataclass(frozen=True, kw_only=True)
class LineOpened:
    """The connection stands, handshake included."""


@dataclass(frozen=True, kw_only=True)
class LineLost:
    """The connection broke, or could not be made."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class MessageReceived:
    """A legal message of the coordinator has arrived with all its payloads. LocalProtocolError if one is missing."""

    message: Message

    def __post_init__(self) -> None:
        require_complete(self.message)


@dataclass(frozen=True, kw_only=True)
class Announced:
    """A legal message of the coordinator that offers payloads which `AgentMachine.wants` declined: they do not come."""

    message: Message


@dataclass(frozen=True, kw_only=True)
class NotUnderstood:
    """Something of the coordinator's that is no message, or none that it may say."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class PayloadMoved:
    """A piece of a payload has arrived: the coordinator lives, and what it sends is on its way."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The model and the data stand ready for the run, and what an earlier life had finished is known.

    report: the latest report of that earlier life. train_samples, test_samples: as the run's own split counts them.
    """

    run: str
    report: Report | None
    train_samples: int
    test_samples: int


@dataclass(frozen=True, kw_only=True)
class Reported:
    """An order has been carried out, and everything that must survive a crash is on disk.

    refused: why the weights that it delivered were not taken; one's own model was used in their place.
    """

    report: Report
    refused: Refusal | None = None


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """Work ended unfinished because it was asked to; nothing of it remains."""


@dataclass(frozen=True, kw_only=True)
class Declined:
    """An order was not carried out because of what it delivered; nothing has changed."""

    refused: Refusal


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Work cannot be done at all, and repeating it would not help. leaves: whether the run should go on without it."""

    reason: str
    leaves: bool = True


@dataclass(frozen=True, kw_only=True)
class LeaveRequested:
    """The operator wants the participant to leave."""

    reason: str
    code: int


@dataclass(frozen=True, kw_only=True)
class Ticked:
    """Time has passed; the machine's deadline may be over."""


FromWork = Prepared | Reported | Stopped | Declined | Failed
FromLine = LineOpened | LineLost | MessageReceived | Announced | NotUnderstood | PayloadMoved
Event = FromLine | FromWork | LeaveRequested | Ticked
