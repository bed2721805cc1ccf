"""Slices: credit, order, repeats, cuts, restarts, caps. Slices of 4 bytes instead of 4 MiB; the law is the same."""

from __future__ import annotations

import pytest

from protocol.errors import BadChecksum, BadTransfer, LocalProtocolError
from protocol.limits import TRANSFERS_PER_PEER, WINDOW_SLICES
from protocol.messages import Grant, Slice
from protocol.naming import content_name
from protocol.traffic import Dispatch, Intake
from protocol.transfer import Fate, IncomingTransfer, OutgoingTransfer

CUT = 4
PAYLOAD = bytes(range(30))  # seven slices of 4 and one of 2
NAME = content_name(PAYLOAD, slice_bytes=CUT)
WINDOW = WINDOW_SLICES * CUT


def piece(index: int, payload: bytes = PAYLOAD) -> Slice:
    start = index * CUT
    return Slice(transfer=NAME, offset=start, data=memoryview(payload[start : start + CUT]))


def receiving(*, slices: int = 0) -> IncomingTransfer:
    incoming = IncomingTransfer(transfer=NAME, size_bytes=len(PAYLOAD), slice_bytes=CUT)
    for _ in range(WINDOW_SLICES):
        incoming.extend()
    for index in range(slices):
        assert incoming.take(piece(index)) is Fate.TAKEN
        incoming.extend()
    return incoming


def spans(outgoing: OutgoingTransfer) -> list[tuple[int, int]]:
    found = []
    while (span := outgoing.next_span()) is not None:
        found.append((span.start, span.stop))
    return found


def sending() -> OutgoingTransfer:
    return OutgoingTransfer(transfer=NAME, size_bytes=len(PAYLOAD), slice_bytes=CUT)


def grant(received: int, until: int, *, again: bool = False) -> Grant:
    return Grant(transfer=NAME, received=received, until=until, again=again)


def test_payload_is_complete_after_its_last_slice_and_not_before() -> None:
    incoming = receiving(slices=7)
    assert not incoming.is_complete
    assert incoming.take(piece(7)) is Fate.TAKEN
    assert incoming.is_complete


def test_window_bounds_what_may_be_under_way() -> None:
    incoming = receiving(slices=1)
    incoming.extend()
    assert incoming.credit_bytes == WINDOW
    assert incoming.next_credit_bytes == 0


def test_repeated_slice_changes_nothing() -> None:
    incoming = receiving(slices=3)
    assert incoming.take(piece(1)) is Fate.REPEATED
    assert incoming.received == 3 * CUT


def test_slice_behind_a_gap_is_not_taken_and_is_complained_about_once() -> None:
    incoming = receiving(slices=1)
    assert incoming.take(piece(2)) is Fate.GAP
    assert [incoming.should_complain(), incoming.should_complain()] == [True, False]
    assert incoming.received == CUT


def test_slice_without_credit_is_not_taken() -> None:
    incoming = receiving()
    assert incoming.take(piece(WINDOW_SLICES)) is Fate.UNASKED


@pytest.mark.parametrize(("offset", "size"), [(2, 4), (0, 3), (28, 4), (28, 1), (32, 4), (0, 8)])
def test_slice_no_honest_sender_cuts_is_the_peers_fault(offset: int, size: int) -> None:
    with pytest.raises(BadTransfer):
        receiving().take(Slice(transfer=NAME, offset=offset, data=memoryview(bytes(size))))


def test_wrong_bytes_are_found_when_the_payload_is_complete() -> None:
    incoming = receiving(slices=7)
    with pytest.raises(BadChecksum):
        incoming.take(piece(7, payload=bytes(30)))


def test_cut_transfer_continues_after_the_slices_held_in_an_earlier_process() -> None:
    incoming = IncomingTransfer(transfer=NAME, size_bytes=len(PAYLOAD), slice_bytes=CUT)
    incoming.resume([PAYLOAD[:8], PAYLOAD[8:20]])
    for index in range(5, 8):
        incoming.extend()
        assert incoming.take(piece(index)) is Fate.TAKEN
    assert incoming.is_complete


@pytest.mark.parametrize("held", [PAYLOAD[:3], PAYLOAD])
def test_resuming_needs_whole_slices_and_something_to_come(held: bytes) -> None:
    with pytest.raises(LocalProtocolError):
        IncomingTransfer(transfer=NAME, size_bytes=len(PAYLOAD), slice_bytes=CUT).resume([held])


def test_transfer_under_way_cannot_be_resumed() -> None:
    with pytest.raises(LocalProtocolError):
        receiving(slices=1).resume([PAYLOAD[:4]])


def test_sender_sends_what_is_granted_once() -> None:
    outgoing = sending()
    assert spans(outgoing) == []
    outgoing.granted(grant(0, 8, again=True))
    outgoing.granted(grant(0, 8))
    assert spans(outgoing) == [(0, 4), (4, 8)]
    outgoing.granted(grant(4, 12))
    assert spans(outgoing) == [(8, 12)]
    assert outgoing.in_flight_bytes == 8


def test_last_slice_is_what_remains() -> None:
    outgoing = sending()
    outgoing.granted(grant(24, 30, again=True))
    assert spans(outgoing) == [(24, 28), (28, 30)]
    outgoing.granted(grant(30, 30))
    assert outgoing.is_done


def test_sender_begins_again_when_requested() -> None:
    outgoing = sending()
    outgoing.granted(grant(0, 12, again=True))
    assert len(spans(outgoing)) == 3
    outgoing.granted(grant(4, 12, again=True))
    assert spans(outgoing) == [(4, 8), (8, 12)]


def test_outdated_receipt_changes_nothing() -> None:
    outgoing = sending()
    outgoing.granted(grant(8, 16, again=True))
    assert len(spans(outgoing)) == 2
    outgoing.granted(grant(0, 8))
    assert spans(outgoing) == []
    assert outgoing.acked == 8


@pytest.mark.parametrize(("received", "until"), [(0, 31), (3, 8), (0, 6), (0, WINDOW + CUT)])
def test_grant_no_honest_receiver_gives_is_the_peers_fault(received: int, until: int) -> None:
    with pytest.raises(BadTransfer):
        sending().granted(grant(received, until))


def test_first_grant_and_the_one_after_a_standstill_say_again() -> None:
    incoming = receiving()
    assert incoming.grant().again
    assert not incoming.grant().again
    incoming.take(piece(0))
    assert [incoming.offered_again().again, incoming.offered_again().again] == [False, True]


def test_credit_over_all_peers_stays_under_the_cap_and_waiting_peers_get_what_is_freed() -> None:
    intake = Intake(capacity_bytes=2 * CUT, slice_bytes=CUT)
    first = intake.offered("a", NAME, len(PAYLOAD))
    assert [(g.peer, g.what.until) for g in first] == [("a", 8)]
    assert intake.offered("b", NAME, len(PAYLOAD)) == ()
    assert intake.credit_bytes == 2 * CUT
    assert [(g.peer, g.what.until) for g in intake.drop("a")] == [("b", 8)]


def test_peers_payloads_come_one_after_another() -> None:
    intake = Intake(slice_bytes=CUT)
    other = b"wxyz1"
    other_name = content_name(other, slice_bytes=CUT)
    intake.offered("a", other_name, len(other))
    assert intake.offered("a", NAME, len(PAYLOAD)) == ()
    for start in (0, 4):
        data = memoryview(other[start : start + 4])
        arrival = intake.arrived("a", Slice(transfer=other_name, offset=start, data=data))
    assert arrival.complete
    assert [(g.what.transfer, g.what.until) for g in arrival.grants] == [(other_name, 5), (NAME, WINDOW)]


def test_one_offer_too_many_pushes_out_the_oldest() -> None:
    intake = Intake(slice_bytes=CUT)
    names = [f"{index:064x}" for index in range(TRANSFERS_PER_PEER + 1)]
    for name in names:
        intake.offered("a", name, 100)
    assert [intake.received_bytes("a", name) for name in names] == [None] + [0] * TRANSFERS_PER_PEER


def test_offer_of_known_content_with_another_size_is_the_peers_fault() -> None:
    intake = Intake(slice_bytes=CUT)
    intake.offered("a", NAME, 30)
    with pytest.raises(BadTransfer):
        intake.offered("a", NAME, 31)


def test_failed_checksum_ends_the_transfer_and_a_new_offer_starts_from_nothing() -> None:
    intake, wrong = Intake(slice_bytes=CUT), bytes(5)
    intake.offered("a", NAME, 5)
    intake.arrived("a", Slice(transfer=NAME, offset=0, data=memoryview(wrong[:4])))
    with pytest.raises(BadChecksum):
        intake.arrived("a", Slice(transfer=NAME, offset=4, data=memoryview(wrong[4:])))
    (afresh,) = intake.offered("a", NAME, 5)
    assert afresh.what == grant(0, 5, again=True)


def test_slice_of_no_known_transfer_or_without_credit_is_dropped() -> None:
    intake = Intake(slice_bytes=CUT)
    unknown = intake.arrived("a", piece(0))
    intake.offered("a", NAME, len(PAYLOAD))
    uncredited = intake.arrived("a", piece(WINDOW_SLICES))
    for arrival in (unknown, uncredited):
        assert (arrival.fate, arrival.complete, arrival.grants) == (Fate.UNASKED, False, ())


def test_grant_below_what_it_acknowledges_cannot_be_built() -> None:
    with pytest.raises(LocalProtocolError, match="until"):
        grant(8, 4)


def test_bytes_in_flight_over_all_peers_stay_under_the_cap() -> None:
    dispatch = Dispatch(capacity_bytes=3 * CUT, slice_bytes=CUT)
    for peer in ("a", "b"):
        dispatch.offer(peer, NAME, len(PAYLOAD))
    assert len(dispatch.granted("a", grant(0, 8, again=True))) == 2
    assert [s.peer for s in dispatch.granted("b", grant(0, 8, again=True))] == ["b"]
    assert dispatch.in_flight_bytes == 3 * CUT
    assert [(s.peer, s.what.start) for s in dispatch.granted("a", grant(4, 8))] == [("b", 4)]
    assert [s.peer for s in dispatch.drop("b")] == []
    assert dispatch.in_flight_bytes == CUT


def test_confirmed_payload_is_forgotten_and_can_be_offered_again() -> None:
    dispatch = Dispatch(slice_bytes=CUT)
    dispatch.offer("a", NAME, len(PAYLOAD))
    dispatch.granted("a", grant(30, 30, again=True))
    assert dispatch.granted("a", grant(0, 8, again=True)) == ()
    dispatch.offer("a", NAME, len(PAYLOAD))
    assert len(dispatch.granted("a", grant(0, 8, again=True))) == 2


def test_capacity_below_one_slice_is_refused() -> None:
    for kind in (Intake, Dispatch):
        with pytest.raises(LocalProtocolError):
            kind(capacity_bytes=3, slice_bytes=CUT)
