"""A line between two peers that fails as real ones do: seeded, in virtual time, and only so often.

It loses, repeats and delays single messages (so they overtake one another, which TCP would not even allow) and can be
cut, which loses everything under way in both directions. Faults are finite: once they are spent the line is perfect,
which is what «every run ends» is conditional on. Decides only what happens to a message; knows nothing of its content.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class LinkFaults:
    """faults: how many messages are mistreated before the line is perfect; each fault is drawn from the three shares.

    loss, duplication, delay: probabilities per message while faults last. longest_delay_s: a delayed message comes up
    to this much later; others take `trip_s`.
    """

    faults: int = 0
    loss: float = 0.0
    duplication: float = 0.0
    delay: float = 0.0
    longest_delay_s: float = 5.0
    trip_s: float = 0.01


class FaultyLink(Generic[T]):
    """Messages under way, addressed by the receiver's name."""

    def __init__(self, weather: LinkFaults, rng: np.random.Generator) -> None:
        self._weather = weather
        self._rng = rng
        self._faults_left = weather.faults
        self._under_way: list[tuple[float, int, str, T]] = []
        self._serial = 0

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    def send(self, to: str, message: T, now: float) -> None:
        """Take a message; it arrives once, later, twice, or never."""
        for delay in self._fate():
            self._serial += 1  # equal times keep the order of sending
            heapq.heappush(self._under_way, (now + delay, self._serial, to, message))

    def next_arrival(self) -> float | None:
        """When the next message arrives; None when nothing is under way."""
        return self._under_way[0][0] if self._under_way else None

    def receive(self) -> tuple[str, T]:
        """The next message that arrives, with its receiver."""
        _, _, to, message = heapq.heappop(self._under_way)
        return to, message

    def cut(self) -> None:
        """The connection breaks: what was under way is gone, in both directions."""
        self._under_way.clear()

    def _fate(self) -> list[float]:
        """The delays of a message's copies."""
        trip = self._weather.trip_s
        if self._faults_left == 0:
            return [trip]
        draw = self._rng.random()
        late = trip + self._rng.random() * self._weather.longest_delay_s
        for share, copies in (
            (self._weather.loss, []),
            (self._weather.duplication, [trip, late]),
            (self._weather.delay, [late]),
        ):
            if draw < share:
                self._faults_left -= 1
                return copies
            draw -= share
        return [trip]
