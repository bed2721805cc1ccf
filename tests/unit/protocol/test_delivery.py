"""The have/want rule: asked twice, say it again; known to have arrived, forget it."""

from __future__ import annotations

from protocol.delivery import Outbox
from protocol.messages import Step
from tests.unit.protocol.samples import heartbeat

TRAIN_3 = Step(kind="train", round_no=3)
TRAIN_4 = Step(kind="train", round_no=4)
FINISH_4 = Step(kind="finish", round_no=4)


def holding(step: Step) -> Outbox:
    outbox = Outbox()
    outbox.hold(step)
    return outbox


def test_step_is_sent_again_at_every_second_asking() -> None:
    outbox = holding(TRAIN_4)
    asked = [outbox.received(heartbeat(have=TRAIN_3, want=TRAIN_4)) for _ in range(5)]
    assert asked == [None, TRAIN_4, None, TRAIN_4, None]


def test_step_the_peer_has_is_forgotten() -> None:
    outbox = holding(TRAIN_4)
    assert outbox.received(heartbeat(have=TRAIN_4)) is None
    assert outbox.held is None
    assert outbox.received(heartbeat(have=TRAIN_3, want=TRAIN_4)) is None


def test_peer_that_wants_nothing_in_between_is_asked_to_ask_twice_again() -> None:
    outbox = holding(TRAIN_4)
    wanting, busy = heartbeat(want=TRAIN_4), heartbeat()
    assert [outbox.received(beat) for beat in (wanting, busy, wanting)] == [None, None, None]


def test_new_step_is_not_sent_twice_because_the_old_one_was_asked_for() -> None:
    outbox = holding(TRAIN_3)
    outbox.received(heartbeat(want=TRAIN_3))
    outbox.hold(TRAIN_4)
    assert outbox.received(heartbeat(want=TRAIN_3)) is None


def test_later_step_answers_a_want_for_an_earlier_one() -> None:
    outbox = holding(FINISH_4)
    beat = heartbeat(have=TRAIN_3, want=TRAIN_4)
    assert [outbox.received(beat), outbox.received(beat)] == [None, FINISH_4]


def test_step_still_to_come_is_not_answered_with_an_older_one() -> None:
    outbox = holding(TRAIN_3)
    assert [outbox.received(heartbeat(want=TRAIN_4)) for _ in range(3)] == [None] * 3


def test_steps_of_a_round_come_in_their_order_and_a_report_shares_its_orders_place() -> None:
    kinds = ("anchor", "train", "finish")
    places = [Step(kind=kind, round_no=4).place for kind in kinds]
    assert [TRAIN_3.place, *places] == sorted([TRAIN_3.place, *places])
    assert [Step(kind=kind, round_no=4).place for kind in ("stats", "update", "goodbye")] == places
