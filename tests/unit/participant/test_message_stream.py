"""Claims about messages with large payloads at one end of a line: none is acted on before its payloads have come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from participant.decisions.events import MessageReceived
from participant.wire.message_stream import MessageStream
from protocol.codec import encode
from protocol.errors import LocalProtocolError
from protocol.limits import SLICE_BYTES
from protocol.messages import Grant, Message, Side, Slice, Train, Update, Welcome
from protocol.tensors import Layout, TensorSet, WireTensor
from tests.unit.participant.agents import train
from tests.unit.protocol.samples import HELLO, LARGE, RUN, WELCOME


def values(number: int) -> TensorSet:
    """A set of a slice and a bit."""
    return TensorSet.of({"w": np.full(SLICE_BYTES // 4 + 100, number, dtype=np.float32)})


class JoinedPosts:
    """Two posts and everything that passed between them; the participant's wants as the test says."""

    def __init__(self, *, wanted: bool = True) -> None:
        self.wanted = wanted
        self.here = MessageStream(lambda _message: self.wanted)
        self.there = MessageStream(lambda _message: True, Side.COORDINATOR)
        self.complete: list[Message] = []
        self.here.send(HELLO)
        self.carry()

    def carry(self) -> None:
        """Until nobody has anything to say."""
        while self.here.outbound or self.there.outbound:
            while self.here.outbound:
                self.there.receive(self.here.outbound.popleft().frames)
            while self.there.outbound:
                self.complete += self.here.receive(self.there.outbound.popleft().frames)

    def send(self, *messages: Message) -> None:
        for message in messages:
            self.there.send(message)
        self.carry()

    def kinds(self) -> list[str]:
        return [message.KIND for message in self.complete]


def sliced(round_no: int, weights: TensorSet | None = None) -> Train:
    return replace(train(round_no), weights=weights or values(round_no))


def test_an_offer_that_is_not_wanted_is_announced_and_never_handed_on() -> None:
    line = JoinedPosts(wanted=False)
    line.send(replace(WELCOME, initial=None), sliced(0))
    assert line.kinds() == ["welcome"]
    assert isinstance(line.here.announced, Train)
    line.wanted = True
    line.send(sliced(0))
    assert line.here.announced is None
    assert [message.weights.flat()[-1] for message in line.complete if isinstance(message, Train)] == [0.0]


def test_what_lacks_a_payload_cannot_be_an_event() -> None:
    with pytest.raises(LocalProtocolError, match="must not be acted on"):
        MessageReceived(message=replace(train(0), weights=LARGE))


def test_an_order_behind_a_large_welcome_comes_whole_and_after_it() -> None:
    line = JoinedPosts()
    line.send(replace(WELCOME, initial=values(7)), sliced(1))
    assert line.kinds() == ["welcome", "train"]


def test_one_payload_that_two_messages_wait_for_is_whole_in_both() -> None:
    """The second message is heard between the two slices, and slices come only once."""
    line, same = JoinedPosts(), values(3)
    line.there.send(replace(WELCOME, initial=same))
    line.here.receive(line.there.outbound.popleft().frames)
    assert line.here.moved  # an offer that was accepted
    line.there.receive(line.here.outbound.popleft().frames)
    line.here.receive(line.there.outbound.popleft().frames)
    assert line.here.moved
    line.there.send(sliced(0, same))
    line.there.outbound.reverse()
    line.carry()
    welcome, order = line.complete
    assert isinstance(welcome, Welcome)
    assert isinstance(order, Train)
    assert welcome.initial is not None
    assert welcome.initial.flat().tobytes() == order.weights.flat().tobytes() == same.flat().tobytes()


def test_an_offer_that_contradicts_an_earlier_one_is_refused_and_the_earlier_one_still_comes() -> None:
    """The same name for a payload of another size: no honest side does that."""
    line, initial = JoinedPosts(), values(1)
    line.there.send(replace(WELCOME, initial=initial))
    line.here.receive(line.there.outbound.popleft().frames)
    longer = Layout((WireTensor(name="w", dtype="float32", shape=(SLICE_BYTES // 4 + 200,)),))
    lie = replace(train(0), weights=TensorSet(layout=longer, data=None, transfer=initial.transfer))
    assert line.here.receive(encode(lie)) == []
    assert "before with" in line.here.refused
    line.carry()
    assert line.kinds() == ["welcome"]


def test_a_new_report_takes_the_place_of_the_payload_of_the_one_before() -> None:
    """Rounds may be shorter than heartbeats, which is when nobody confirms a report; memory must not grow by them."""
    line = JoinedPosts()
    line.send(WELCOME, train(WELCOME.round_no))
    reports = [
        Update(run=RUN, round_no=WELCOME.round_no, steps=1, train_loss=0.5, scores=(), weights=values(number))
        for number in (1, 2)
    ]
    for report in reports:
        line.here.send(report)
    line.here.outbound.clear()
    for report in reports:
        grant = Grant(transfer=str(report.weights.transfer), received=0, until=SLICE_BYTES, again=True)
        line.here.receive(encode(grant))
    sent = [one.message.transfer for one in line.here.outbound if isinstance(one.message, Slice)]
    assert sent == [reports[1].weights.transfer]
