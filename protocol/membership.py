"""Messages for joining and leaving: hello, welcome, reject, hello-required, leave.

Who is admitted is policy and must not be known here.
"""

from __future__ import annotations

from typing import Annotated

from protocol.contracts import one_of, record
from protocol.errors import REFUSAL_CODES
from protocol.message_base import FROM_COORDINATOR, FROM_PARTICIPANT, Message, OptionalTensors
from protocol.plan import Count, Digest, FreeText, PeerName, Plan, RoundNo, RunId, Seconds, Shape, ShortText, Token


@record
class Hello(Message):
    """First message of a connection, repeated until answered: who connects, with which model and how much data.

    name: name of the participant; on an authenticated connection the key decides, not this field.
    instance: random, created once per installation: distinguishes a restart from a second process with the same name or
        key.
    software: name and version of the program, for the log.
    run: the run it was part of, if it reconnects; nil otherwise.
    model_layout: digest of the layout of its whole model.
    classes: digest of its class names in order.
    input_shape: shape of one input of its model.
    preprocessing: digest of its preprocessing.
    train_samples: samples it trains on.
    test_samples: samples it evaluates on.
    group_key: fingerprint of the members' common key; nil: it has none. With a key, sample counts may be 0 (not
        disclosed).
    process: random, drawn anew by each process: distinguishes repeated or delayed bytes of one process from a second
        process with a copy of its state; nil from versions before 5.3.
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
    process: Token | None = None


@record
class Welcome(Message):
    """The participant is a member: the run, the plan, and the initial model.

    run: the run.
    participant: its name in the run.
    round_no: the latest round ordered from this participant, or the one in which it will enter.
    heartbeat_s: both sides send a heartbeat at least this often.
    plan: everything that determines the numbers.
    initial: the initial model, all tensors; nil for a member that reconnects.
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
    """The participant may not take part: the reason, with both values if two differ.

    code: the reason.
    reason: the same for a person.
    ours: the coordinator's value; empty if nothing is compared.
    yours: the participant's value; empty if nothing is compared.
    wait_s: seconds after which to try again, if the process that uses the name stays silent; nil: do not retry.
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
    """The coordinator does not know this connection (it restarted, or the participant was gone): send hello."""

    KIND = "hello-required"
    SENDERS = FROM_COORDINATOR


@record
class Leave(Message):
    """The participant leaves the run before its end; it may come back with a hello.

    run: the run.
    reason: for the log.
    """

    KIND = "leave"
    SENDERS = FROM_PARTICIPANT

    run: RunId
    reason: FreeText
