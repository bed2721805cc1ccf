"""Claims about what may wait unread: honest peers stay below every bound at any pace; what has no end is seen."""

from __future__ import annotations

import pytest

from protocol.backlog import (
    CHECK_MS,
    MEMBER_BYTES,
    NEWCOMER_S,
    NEWCOMERS_CHECK_MS,
    STRANGER_BYTES,
    STRANGER_DROPS,
    STRANGERS_BYTES,
    UNREAD_BYTES,
    Account,
    BacklogLimits,
    UnreadRemains,
    excesses,
    is_inconspicuous,
    must_hold,
    next_check_ms,
    wire_bytes,
)
from protocol.limits import FRAME_BYTES, SLICE_BYTES, WINDOW_SLICES

BOUNDS = BacklogLimits(strangers=3, message_bytes=FRAME_BYTES)


def stranger(serial: int = 0, *, waiting: int = 0, address: str = "a") -> Account:
    return Account(address=address, serial=serial, taken=waiting)


def member(waiting: int) -> Account:
    return Account(address="m", serial=0, is_member=True, taken=waiting)


def cut(
    accounts: list[Account], *, now: float = 0.0, drains: int = 0, remains: UnreadRemains | None = None
) -> list[Account]:
    found = excesses(accounts, BOUNDS, remains or UnreadRemains(), now=now, drains=drains)
    return [one.account for one in found]


@pytest.mark.parametrize(
    ("sizes", "encrypted", "expected"), [([10], False, 12), ([255, 256], False, 257 + 265), ([10, 223], True, 45 + 265)]
)
def test_wire_bytes_are_those_of_zmtp(sizes: list[int], encrypted: bool, expected: int) -> None:
    """A body below 256 bytes has a head of 2, else of 9; CURVE puts 33 bytes around each body before that counts."""
    assert wire_bytes(sizes, encrypted=encrypted) == expected


@pytest.mark.parametrize(
    ("age_s", "is_member", "took_s", "expected"),
    [
        (0.0, False, 0.0, NEWCOMERS_CHECK_MS),
        (0.0, False, 0.002, 8),
        (0.0, False, 1.0, CHECK_MS),
        (NEWCOMER_S, False, 0.0, CHECK_MS),
        (0.0, True, 0.0, CHECK_MS),
    ],
    ids=["a newcomer", "many, whose check takes long", "a check that takes very long", "idle for long", "a member"],
)
def test_newcomers_are_checked_more_often_at_a_fifth_of_the_time_at_most(
    age_s: float, is_member: bool, took_s: float, expected: int
) -> None:
    old, other = stranger(), Account(address="b", serial=1, since=100.0 - age_s, is_member=is_member)
    assert next_check_ms([old, other], began=100.0, ended=100.0 + took_s) == expected


def test_a_stranger_may_have_a_few_small_messages_waiting_and_no_more() -> None:
    small, large = stranger(0, waiting=STRANGER_BYTES), stranger(1, waiting=STRANGER_BYTES + 1)
    assert cut([small, large]) == [large]


def test_a_stranger_with_dropped_packets_is_cut_and_a_member_is_not() -> None:
    few, many, welcomed = stranger(0), stranger(1), member(0)
    few.dropped, many.dropped, welcomed.dropped = STRANGER_DROPS - 1, STRANGER_DROPS, STRANGER_DROPS
    assert cut([few, many, welcomed]) == [many]


def test_of_strangers_that_have_too_much_together_the_largest_go() -> None:
    share = STRANGERS_BYTES // 5 - 100
    crowd = [stranger(number, waiting=share + number) for number in range(3)]
    many = BacklogLimits(strangers=10)
    assert excesses(crowd, many, UnreadRemains(), now=0.0, drains=0) == []
    crowd += [stranger(number, waiting=share + number) for number in range(3, 6)]
    found = [one.account.serial for one in excesses(crowd, many, UnreadRemains(), now=0.0, drains=0)]
    assert found == [5]


def test_of_too_many_strangers_the_oldest_of_the_fullest_address_goes() -> None:
    accounts = [stranger(0, address="b"), stranger(1), stranger(2), stranger(3)]
    assert [account.serial for account in cut(accounts)] == [1]


def test_a_window_of_slices_waits_as_long_as_nobody_reads_the_socket() -> None:
    account = member(WINDOW_SLICES * SLICE_BYTES)
    for second in range(3600):
        assert cut([account], now=float(second), drains=0) == []
    assert not must_hold(account)


def test_a_message_larger_than_any_is_cut_once_the_socket_was_empty_and_it_is_still_there() -> None:
    account = member(FRAME_BYTES + 1)
    assert cut([account], now=0.0, drains=0) == []
    assert cut([account], now=1.0, drains=1) == []
    assert cut([account], now=1.1, drains=2) == [account]


def test_slices_that_keep_coming_and_are_read_are_not_taken_for_one_message() -> None:
    account = member(2 * FRAME_BYTES)
    for turn in range(100):
        account.taken += FRAME_BYTES
        account.read_bytes += FRAME_BYTES
        assert cut([account], now=float(turn), drains=10 * turn) == []


def test_a_member_of_whom_much_waits_is_held_until_half_of_it_is_read() -> None:
    account = member(MEMBER_BYTES + 1)
    assert must_hold(account)
    account.is_held = True
    account.read_bytes = MEMBER_BYTES // 4
    assert must_hold(account)
    account.read_bytes = MEMBER_BYTES // 2 + 1
    assert not must_hold(account)


def test_what_strangers_leave_behind_counts_until_the_socket_was_empty() -> None:
    remains = UnreadRemains()
    for _ in range(9):
        remains.gone(stranger(waiting=UNREAD_BYTES // 8), drains=5)
    assert remains.is_too_much("a")
    assert not remains.is_too_much("b")
    assert not remains.is_far_too_much
    newcomer, other = stranger(0), stranger(1, address="b")
    assert cut([newcomer, other], drains=6, remains=remains) == [newcomer]
    assert cut([newcomer, other], drains=7, remains=remains) == []
    assert not remains


def test_what_a_member_leaves_behind_is_held_against_nobody() -> None:
    remains = UnreadRemains()
    remains.gone(member(MEMBER_BYTES), drains=0)
    assert not remains


def test_a_message_that_was_too_large_costs_the_connection_although_nothing_waits_any_more() -> None:
    account = member(waiting=BOUNDS.message_bytes + 1)
    account.read(BOUNDS.message_bytes)
    assert cut([account]) == []
    account.taken += BOUNDS.message_bytes
    account.read(BOUNDS.message_bytes + 1)
    assert cut([account]) == [account]


def test_who_is_cut_is_held_no_longer() -> None:
    account = member(waiting=MEMBER_BYTES + 1)
    assert must_hold(account)
    account.is_cut = account.is_held = True
    assert not must_hold(account)


def test_a_stranger_whose_hello_was_taken_is_not_sent_away_for_others_of_its_address() -> None:
    """Its welcome may be on its way; one that has more to say, or said nothing, is sent away."""
    remains = UnreadRemains()
    remains.gone(stranger(0, waiting=2 * UNREAD_BYTES), drains=0)
    hello_sent, silent, busy = stranger(1), stranger(2, waiting=200), stranger(3)
    for account, waiting in ((hello_sent, 200), (busy, 100_000)):
        account.read(1500)
        account.taken = 1500 + waiting
    assert cut([hello_sent, silent, busy], remains=remains) == [silent, busy]


def test_with_keys_strangers_leave_nothing_behind_beyond_the_handshakes_that_were_accepted() -> None:
    """200 that go would count 200 times 48 KiB, more than the 4 MiB of an address, if any of them could have spoken."""
    remains = UnreadRemains(accepted=lambda address: 2 if address == "a" else 0)
    for number in range(200):
        remains.gone(stranger(number, waiting=200), drains=0)
        remains.gone(stranger(number, waiting=200, address="b"), drains=0)
    assert not remains.is_too_much("a")
    assert not remains.is_far_too_much
    assert cut([stranger(200, waiting=200)], remains=remains) == []


def test_with_keys_whoever_has_sent_more_than_a_handshake_counts() -> None:
    remains = UnreadRemains(accepted=lambda _: 0)
    remains.gone(stranger(0, waiting=2 * UNREAD_BYTES), drains=0)
    assert remains.is_too_much("a")
    many = UnreadRemains(accepted=lambda _: 200)
    for number in range(200):
        many.gone(stranger(number, waiting=200), drains=0)
    assert many.is_too_much("a")


def test_a_member_is_inconspicuous_exactly_if_no_check_would_act_on_it() -> None:
    """Below every bound nothing follows; at each bound, and while a check is in progress, it is looked at."""
    calm = member(FRAME_BYTES)
    assert is_inconspicuous(calm, BOUNDS)
    assert not cut([calm])
    assert not must_hold(calm)
    assert not is_inconspicuous(stranger(), BOUNDS)
    assert not is_inconspicuous(member(FRAME_BYTES + 1), BOUNDS)
    generous = BacklogLimits(strangers=3, message_bytes=2 * MEMBER_BYTES)
    assert is_inconspicuous(member(MEMBER_BYTES), generous)
    assert not is_inconspicuous(member(MEMBER_BYTES + 1), generous)
    held, large = member(0), member(0)
    held.is_held = True
    large.read(FRAME_BYTES + 1)
    assert not is_inconspicuous(held, BOUNDS)
    assert not is_inconspicuous(large, BOUNDS)
    watched = member(FRAME_BYTES + 1)
    cut([watched])
    watched.read(FRAME_BYTES)
    assert watched.mark is not None
    watched.largest = 0
    assert not is_inconspicuous(watched, BOUNDS)
