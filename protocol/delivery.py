"""When to send an order or a report again: the have/want rule of heartbeats.

A broken connection loses messages in flight and leaves both sides waiting. So each side keeps the latest step it sent
until the peer is known to have it, and sends it again after the peer has asked twice: a single request may have crossed
the step in flight. A side keeps one step per peer, because a newer one replaces the older. This file must not know
clocks (requests are counted, not timed), nor what a step contains.
"""

from __future__ import annotations

from protocol.message_base import Step
from protocol.signals import Heartbeat

ASKED_ENOUGH = 2
"""Heartbeats that want a step we hold before we send it again."""


class Outbox:
    """The latest step sent to one peer, until it is known to have arrived."""

    def __init__(self) -> None:
        self.held: Step | None = None
        self._asked = 0

    def hold(self, step: Step) -> None:
        """Hold `step`, which was sent (or is ready to be). It replaces any earlier one and resets the requests."""
        self.held = step
        self._asked = 0

    def received(self, beat: Heartbeat) -> Step | None:
        """Return the step to send again in response to the peer's heartbeat, or None.

        `want` names the next step the peer can use; the held one answers it if it is that step or a later one (a
        participant that waits for `train` may have missed `finish`).
        """
        if self.held is None:
            return None
        if beat.have is not None and beat.have.place >= self.held.place:
            self.held = None
            return None
        if beat.want is None or beat.want.place > self.held.place:
            self._asked = 0
            return None
        self._asked += 1
        if self._asked < ASKED_ENOUGH:
            return None
        self._asked = 0
        return self.held
