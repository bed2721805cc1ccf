"""Claims about who may be answered how often: connecting anew brings a stranger and a member nothing new."""

from __future__ import annotations

from coordinator.wire.connections import (
    ADDRESS_ANSWERS_AT_ONCE_S,
    ADDRESS_ANSWERS_PER_S,
    ALL_ANSWERS_AT_ONCE_S,
    ALL_ANSWERS_PER_S,
    ANSWERS_AT_ONCE_S,
    ANSWERS_PER_S,
    Peers,
)

EACH = int(ANSWERS_PER_S * ANSWERS_AT_ONCE_S)
ADDRESS = int(ADDRESS_ANSWERS_PER_S * ADDRESS_ANSWERS_AT_ONCE_S)
ALL = int(ALL_ANSWERS_PER_S * ALL_ANSWERS_AT_ONCE_S)


def answered(peers: Peers, connection: str, address: str) -> int:
    """How many of a hundred faults at one moment are answered."""
    return sum(peers.may_answer(peers.meet(connection, address, 0.0), 0.0) for _ in range(100))


def test_one_connection_is_answered_a_few_times() -> None:
    assert answered(Peers(messages_per_s=1.0), "c", "a") == EACH


def test_strangers_of_one_address_share_what_is_answered() -> None:
    peers = Peers(messages_per_s=1.0)
    assert sum(answered(peers, f"c{number}", "a") for number in range(1_000)) == ADDRESS
    assert answered(peers, "other", "b") == EACH


def test_strangers_of_many_addresses_share_what_is_answered_in_all() -> None:
    peers = Peers(messages_per_s=1.0)
    assert sum(answered(peers, f"c{number}", f"a{number}") for number in range(1_000)) == ALL


def test_a_member_that_reconnects_has_spent_what_it_has_spent() -> None:
    peers = Peers(messages_per_s=3.0)
    first = peers.meet("c1", "a", 0.0)
    peers.welcome(first, "m")
    assert answered(peers, "c1", "a") == EACH
    while first.messages.take(0.0):
        pass
    second = peers.meet("c2", "a", 0.0)
    peers.welcome(second, "m")
    assert not peers.may_answer(second, 0.0)
    assert not second.messages.take(0.0)


def test_strangers_that_use_up_everything_take_nothing_from_members() -> None:
    peers = Peers(messages_per_s=1.0)
    member = peers.meet("m", "a", 0.0)
    peers.welcome(member, "m")
    for number in range(1_000):
        answered(peers, f"c{number}", f"a{number % 7}")
    assert peers.may_answer(member, 0.0)
