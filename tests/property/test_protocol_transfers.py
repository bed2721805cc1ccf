"""Payloads over a line that fails: whatever is lost, repeated or late, every one arrives whole, within the caps."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.messages import Grant, Slice
from protocol.naming import content_name
from protocol.traffic import Dispatch, Intake, To
from protocol.transfer import Fate, Span
from tests.support.link import FaultyLink, LinkFaults

CUT = 4
PATIENCE = 1_000
"""Wake-ups after which a transfer that is not complete never will be: far more than the most faults times delays."""

weathers = st.builds(
    LinkFaults,
    faults=st.integers(0, 60),
    loss=st.floats(0, 0.5),
    duplication=st.floats(0, 0.3),
    delay=st.floats(0, 0.3),
)
payloads = st.lists(st.binary(min_size=1, max_size=70), min_size=1, max_size=6, unique=True)


class Yard:
    """One sender, one receiver and, between them, a line; several payloads for several peers at once."""

    def __init__(self, contents: list[bytes], weather: LinkFaults, seed: int, capacity_slices: int) -> None:
        self.contents: dict[str, dict[str, bytes]] = {f"p{index}": {} for index in range(3)}
        for index, content in enumerate(contents):
            self.contents[f"p{index % 3}"][content_name(content, slice_bytes=CUT)] = content
        self.link: FaultyLink[To[Grant | Slice | str]] = FaultyLink(weather, np.random.default_rng(seed))
        self.capacity = capacity_slices * CUT
        self.dispatch = Dispatch(capacity_bytes=self.capacity, slice_bytes=CUT)
        self.intake = Intake(capacity_bytes=self.capacity, slice_bytes=CUT)
        self.arriving: dict[tuple[str, str], bytearray] = {}
        self.complete: dict[tuple[str, str], bytes] = {}

    @property
    def wanted(self) -> list[tuple[str, str]]:
        everything = [(peer, name) for peer, held in self.contents.items() for name in held]
        return [key for key in everything if key not in self.complete]

    def beat(self, now: float) -> None:
        """What heartbeats bring about: the sender offers (again) what is wanted and learns what the receiver has."""
        for peer, name in self.wanted:
            self.dispatch.offer(peer, name, len(self.contents[peer][name]))
            self.link.send("receiver", To(peer, name), now)
        for peer, name in self.complete:
            self.link.send("sender", To(peer, name), now)

    def step(self, now: float) -> None:
        to, letter = self.link.receive()
        if to == "sender" and isinstance(letter.what, Grant):
            self._send(self.dispatch.granted(letter.peer, letter.what), now)
        elif to == "sender" and isinstance(letter.what, str):
            self._send(self.dispatch.drop(letter.peer, letter.what), now)
        elif isinstance(letter.what, str):
            if (letter.peer, letter.what) not in self.complete:
                size = len(self.contents[letter.peer][letter.what])
                self._reply(self.intake.offered(letter.peer, letter.what, size), now)
        elif isinstance(letter.what, Slice):
            self._take(letter.peer, letter.what, now)
        assert self.intake.credit_bytes <= self.capacity
        assert self.dispatch.in_flight_bytes <= self.capacity

    def restart_receiver(self, keep: bool) -> None:
        """The receiver dies. What it had written is there (`keep`) or not; the line is cut, the sender notices."""
        self.link.cut()
        self.intake = Intake(capacity_bytes=self.capacity, slice_bytes=CUT)
        for peer in self.contents:
            self.dispatch.drop(peer)
        for (peer, name), held in self.arriving.items():
            whole = len(held) // CUT * CUT if keep else 0
            del held[whole:]
            if (peer, name) not in self.complete:
                self.intake.offered(peer, name, len(self.contents[peer][name]), [bytes(held)])

    def restart_sender(self) -> None:
        self.link.cut()
        self.dispatch = Dispatch(capacity_bytes=self.capacity, slice_bytes=CUT)

    def _take(self, peer: str, piece: Slice, now: float) -> None:
        arrival = self.intake.arrived(peer, piece)
        if arrival.fate is Fate.TAKEN:
            held = self.arriving.setdefault((peer, piece.transfer), bytearray())
            held[piece.offset :] = piece.data
        if arrival.complete:
            self.complete[peer, piece.transfer] = bytes(self.arriving[peer, piece.transfer])
        self._reply(arrival.grants, now)

    def _send(self, spans: tuple[To[Span], ...], now: float) -> None:
        for span in spans:
            content = self.contents[span.peer][span.what.transfer]
            piece = span.what.filled(content[span.what.start : span.what.stop])
            self.link.send("receiver", To(span.peer, piece), now)

    def _reply(self, grants: tuple[To[Grant], ...], now: float) -> None:
        for grant in grants:
            self.link.send("sender", To(grant.peer, grant.what), now)


def run_until_complete(yard: Yard, restarts: dict[int, str]) -> None:
    """Beat once per virtual second and deliver what arrives; restarts happen after the given number of deliveries."""
    delivered = 0
    for second in range(PATIENCE):
        if not yard.wanted:
            return
        yard.beat(float(second))
        while (arrival := yard.link.next_arrival()) is not None and arrival < second + 1:
            yard.step(arrival)
            delivered += 1
            match restarts.pop(delivered, None):
                case "receiver":
                    yard.restart_receiver(keep=True)
                case "receiver from nothing":
                    yard.restart_receiver(keep=False)
                case "sender":
                    yard.restart_sender()
    raise AssertionError(f"still missing after {PATIENCE} s: {yard.wanted}")


restart_plans = st.dictionaries(
    st.integers(1, 60), st.sampled_from(["receiver", "receiver from nothing", "sender"]), max_size=4
)


@settings(deadline=None)
@given(payloads, weathers, st.integers(0, 2**32), st.integers(1, 12), restart_plans)
def test_every_payload_arrives_whole_whatever_the_line_does(
    contents: list[bytes], weather: LinkFaults, seed: int, capacity_slices: int, restarts: dict[int, str]
) -> None:
    yard = Yard(contents, weather, seed, capacity_slices)
    run_until_complete(yard, dict(restarts))
    assert sorted(yard.complete.values()) == sorted(contents)


@settings(deadline=None)
@given(payloads, st.integers(1, 12))
def test_on_a_perfect_line_every_slice_is_sent_exactly_once(contents: list[bytes], capacity_slices: int) -> None:
    yard = Yard(contents, LinkFaults(), 0, capacity_slices)
    sent: list[tuple[str, str, int]] = []
    plain_take = yard._take

    def counting_take(peer: str, piece: Slice, now: float) -> None:
        sent.append((peer, piece.transfer, piece.offset))
        plain_take(peer, piece, now)

    yard._take = counting_take  # type: ignore[method-assign]
    run_until_complete(yard, {})
    assert len(sent) == len(set(sent)) == sum(-(-len(content) // CUT) for content in contents)
