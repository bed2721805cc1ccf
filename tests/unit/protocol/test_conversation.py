"""The table of what may follow what: closed, reachable, strict towards ourselves and lenient towards the network."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.conversation import TABLE, Conversation, Freshness, PeerState
from protocol.errors import BadRound, LocalProtocolError, WrongSender
from protocol.messages import KINDS, Goodbye, HelloRequired, Leave, Message, Reject, Side
from tests.unit.protocol.samples import EVERYTHING, FINISH, HELLO, RUN, WELCOME, heartbeat, train, update

P, C = Side.PARTICIPANT, Side.COORDINATOR
GOODBYE = Goodbye(run=RUN, round_no=20, scores=())


def coordinator_after(*said: tuple[Side, Message]) -> Conversation:
    """The coordinator's view after these messages."""
    conversation = Conversation(C)
    for speaker, message in said:
        if speaker is C:
            conversation.send(message)
        else:
            assert conversation.receive(message) is Freshness.VALID
    return conversation


JOINED = ((P, HELLO), (C, WELCOME))


def test_table_lists_every_kind_and_no_other() -> None:
    assert {kind for sides in TABLE.values() for kinds in sides.values() for kind in kinds} == KINDS.keys()


def test_table_lists_a_kind_only_for_those_who_may_send_it() -> None:
    for speakers in TABLE.values():
        for speaker, kinds in speakers.items():
            assert all(speaker in KINDS[kind].SENDERS for kind in kinds)


def test_every_state_can_be_reached_from_the_first() -> None:
    reached, frontier = {PeerState.UNKNOWN}, [PeerState.UNKNOWN]
    while frontier:
        for kinds in TABLE[frontier.pop()].values():
            frontier += set(kinds.values()) - reached
            reached |= set(kinds.values())
    assert reached == set(PeerState) == set(TABLE)


def test_hello_is_legal_in_every_state_and_starts_afresh() -> None:
    assert {TABLE[state][P]["hello"] for state in PeerState} == {PeerState.PENDING}


def test_coordinator_can_ask_for_a_hello_in_every_state() -> None:
    assert {TABLE[state][C]["hello-required"] for state in PeerState} == {PeerState.UNKNOWN}


def test_two_views_of_an_undisturbed_run_agree_at_every_step() -> None:
    views = {speaker: Conversation(speaker) for speaker in Side}
    run = [*JOINED, (C, train(0)), (P, update(0)), (C, train(1)), (P, update(1)), (C, FINISH), (P, GOODBYE)]
    for speaker, message in run:
        views[speaker].send(message)
        assert views[speaker.other].receive(message) is Freshness.VALID
        assert views[P].state is views[C].state
        assert views[P].ordered == views[C].ordered
    assert views[P].state is PeerState.FINISHED


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ((), WELCOME),
        (((P, HELLO),), train(0)),
        (JOINED, WELCOME),
        ((*JOINED, (C, FINISH)), train(3)),
        ((*JOINED, (P, Leave(run=RUN, reason=""))), heartbeat()),
        (JOINED, replace(train(0), run="another-run")),
        (JOINED, HELLO),
    ],
)
def test_saying_what_the_table_does_not_allow_is_our_fault(
    said: tuple[tuple[Side, Message], ...], message: Message
) -> None:
    conversation = coordinator_after(*said)
    before = conversation.state
    with pytest.raises(LocalProtocolError):
        conversation.send(message)
    assert conversation.state is before


def test_participant_cannot_report_on_a_round_it_was_not_ordered() -> None:
    conversation = Conversation(P)
    conversation.send(HELLO)
    conversation.receive(WELCOME)
    with pytest.raises(LocalProtocolError, match="round 1"):
        conversation.send(update(1))


def test_report_on_a_round_never_ordered_is_the_peers_fault() -> None:
    conversation = coordinator_after(*JOINED, (C, train(4)))
    assert conversation.receive(update(3)) is Freshness.VALID
    with pytest.raises(BadRound, match="round 5, ordered up to 4"):
        conversation.receive(update(5))


def test_welcome_of_one_who_comes_back_lets_it_report_what_it_trained_meanwhile() -> None:
    conversation = coordinator_after((P, HELLO), (C, replace(WELCOME, round_no=7)))
    assert conversation.receive(update(7)) is Freshness.VALID


@pytest.mark.parametrize("message", [m for m in EVERYTHING if P not in m.SENDERS], ids=lambda m: m.KIND)
def test_participant_that_sends_the_coordinators_messages_is_at_fault_in_every_state(message: Message) -> None:
    for said in ((), ((P, HELLO),), JOINED, (*JOINED, (C, FINISH))):
        with pytest.raises(WrongSender):
            coordinator_after(*said).receive(message)


def test_message_of_an_unknown_connection_is_stale_and_calls_for_a_hello() -> None:
    conversation = Conversation(C)
    assert conversation.receive(heartbeat()) is Freshness.STALE
    assert conversation.hello_required
    conversation.send(HelloRequired())
    assert conversation.receive(HELLO) is Freshness.VALID
    assert not conversation.hello_required


def test_stale_message_of_a_member_does_not_call_for_a_hello() -> None:
    conversation = coordinator_after(*JOINED, (C, FINISH))
    assert conversation.receive(update(3)) is Freshness.STALE
    assert not conversation.hello_required


def test_message_of_another_run_is_stale() -> None:
    conversation = coordinator_after(*JOINED)
    assert conversation.receive(replace(heartbeat(), run="yesterday")) is Freshness.STALE


def test_rejected_participant_may_try_again() -> None:
    conversation = coordinator_after((P, HELLO), (C, Reject(code="full", reason="")), (P, HELLO))
    assert conversation.state is PeerState.PENDING


def test_participant_told_to_say_hello_drops_everything_else_until_welcomed() -> None:
    conversation = Conversation(P)
    conversation.send(HELLO)
    conversation.receive(WELCOME)
    conversation.receive(HelloRequired())
    assert conversation.receive(train(0)) is Freshness.STALE
    with pytest.raises(LocalProtocolError):
        conversation.send(heartbeat())
    conversation.send(HELLO)
    assert conversation.receive(WELCOME) is Freshness.VALID


def test_late_welcome_does_not_make_a_participant_forget_what_it_was_ordered() -> None:
    """Told to say hello in round 3, it may be answered by a welcome of round 0 that was delayed on its way."""
    conversation = Conversation(P)
    conversation.send(HELLO)
    conversation.receive(WELCOME)
    conversation.receive(train(3))
    conversation.receive(HelloRequired())
    conversation.send(HELLO)
    conversation.receive(WELCOME)
    conversation.send(update(3))
    assert conversation.ordered == 3


def test_welcome_into_another_run_forgets_the_orders_of_the_last() -> None:
    conversation = coordinator_after(*JOINED, (C, train(3)), (P, HELLO), (C, replace(WELCOME, run="run-2")))
    assert (conversation.run, conversation.ordered) == ("run-2", 0)
