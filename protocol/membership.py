"""Messages by which a participant comes and goes: hello, welcome, reject, hello-required, leave.

Whether somebody is let in is policy and must not be known here.
"""

from __future__ import annotations

from typing import Annotated

from protocol.contracts import one_of, record
from protocol.errors import REFUSAL_CODES
from protocol.message_base import FROM_COORDINATOR, FROM_PARTICIPANT, Message, OptionalTensors
from protocol.plan import Count, Digest, FreeText, PeerName, Plan, RoundNo, RunId, Seconds, Shape, ShortText, Token


@record
class Hello(Message):
    """First message of a connection, repeated until answered: who comes, with which model and how much data.

    name: what the participant calls itself; on an authenticated connection the key decides, not this.
    instance: random, made once per installation: tells a restart from a second process with the same name or key.
    software: name and version of the program, for the log.
    run: the run it was part of, when it comes back; nil otherwise.
    model_layout: digest of the layout of its whole model.
    classes: digest of its class names in order.
    input_shape: shape of one input of its model.
    preprocessing: digest of how it scales inputs.
    train_samples: samples it trains on.
    test_samples: samples it evaluates on.
    group_key: fingerprint of the members' common key; nil where it has none. Then sample counts may be 0: not told.
    """

    KIND = "hello"
    SENDERS = FROM_PARTICIPANT

    name: PeerName
    instance: Token
    software: ShortText
    run: RunId | None
    model_layout: Digest
    classes: Digest
    input_shape: Shape
    preprocessing: Digest
    train_samples: Count
    test_samples: Count
    group_key: Digest | None = None


@record
class Welcome(Message):
    """The participant is a member: the run, the plan, and the model everybody starts from.

    run: the run.
    participant: the name under which the run knows it.
    round_no: the latest round ordered from this participant, or the one it will enter at.
    heartbeat_s: both sides send a heartbeat at least this often.
    plan: everything that shapes the numbers.
    initial: the initial model, all tensors; nil for one who comes back.
    """

    KIND = "welcome"
    SENDERS = FROM_COORDINATOR

    run: RunId
    participant: PeerName
    round_no: RoundNo
    heartbeat_s: Seconds
    plan: Plan
    initial: OptionalTensors


@record
class Reject(Message):
    """The participant may not take part, and why, with both values where two differ.

    code: the reason.
    reason: the same for a person.
    ours: what the coordinator has; empty where nothing is compared.
    yours: what the participant sent; empty where nothing is compared.
    wait_s: seconds after which to try again, if the process that uses the name stays silent; nil: waiting is no use.
    """

    KIND = "reject"
    SENDERS = FROM_COORDINATOR

    code: Annotated[str, one_of(*REFUSAL_CODES)]
    reason: FreeText
    ours: FreeText = ""
    yours: FreeText = ""
    wait_s: Seconds | None = None


@record
class HelloRequired(Message):
    """The coordinator does not know this connection (it restarted, or the participant had gone): send hello."""

    KIND = "hello-required"
    SENDERS = FROM_COORDINATOR


@record
class Leave(Message):
    """The participant leaves before the end, on purpose; it may come back with a hello.

    run: the run.
    reason: for the log.
    """

    KIND = "leave"
    SENDERS = FROM_PARTICIPANT

    run: RunId
    reason: FreeText
