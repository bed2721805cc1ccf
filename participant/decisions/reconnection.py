"""Decide when to connect, when to send hello, when a connection counts as dead and when to give up: times only.

Pure, used only by `machine`. Pauses double up to a cap and are shortened at random, so that the members of a federation
do not all reconnect at the same moment after their coordinator restarts; the random generator is passed in.

A slow line is not a dead one: on an overloaded machine or a narrow link one slice may take longer than the allowed
silence, and closing the line would only restart that slice. So each line that falls silent before it has delivered an
order or a report doubles the silence allowed to the next one, up to `LONGEST_SILENCE` times the configured one. A line
that delivers resets it to what that line needed; on a fast line, the minimum. A hello is not repeated while its answer
is arriving: that would request the answer's payload again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedap_core.errors import InvalidInput
from participant.decisions.actions import Action, CloseLine, Log, OpenLine


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """The timeouts of a participant.

    reconnect_s: first pause before reconnecting; reconnect_cap_s: longest. answer_s: time until hello is repeated,
    and a third of the time after which an unanswered line is replaced. silence_beats: heartbeats that the
    coordinator may miss before the line counts as dead. farewell_s: how long the last report is repeated. give_up_s:
    end after this long without a coordinator; None: never.
    """

    reconnect_s: float = 0.5
    reconnect_cap_s: float = 30.0
    answer_s: float = 5.0
    silence_beats: float = 4.0
    farewell_s: float = 10.0
    give_up_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("reconnect_s", "reconnect_cap_s", "answer_s", "silence_beats", "farewell_s"):
            if not 0.0 < getattr(self, name) < float("inf"):
                raise InvalidInput(name, getattr(self, name), "a finite number > 0")
        if self.reconnect_cap_s < self.reconnect_s:
            raise InvalidInput("reconnect_cap_s", self.reconnect_cap_s, f"at least reconnect_s, {self.reconnect_s:g}")
        if self.give_up_s is not None and not self.give_up_s > 0.0:
            raise InvalidInput("give_up_s", self.give_up_s, "a number > 0, or nothing for never")


UNANSWERED_HELLOS = 3
"""Multiples of `answer_s` for which an open line may stay unanswered before a new one is tried."""


LONGEST_SILENCE = 8
"""Largest multiple of the configured silence, reached after several lines fell silent before delivering anything."""


UNREADABLE_ANSWERS = 5
"""Consecutive hellos with an unreadable answer after which the participant ends."""


NO_CONNECTION = "no connection: check the address and the firewall"
"""Reported when nothing came back at all; a port without a listener refuses at once."""


@dataclass(frozen=True, kw_only=True)
class Due:
    """What is due at a tick."""

    actions: tuple[Action, ...] = ()
    hello: bool = False
    beat: bool = False
    gave_up: bool = False
    farewell_over: bool = False


class ConnectionState:
    """The line's state: closed (retry at a time), opening, open, open and member.

    has_finished: nothing is left to do, because the run ended before a restart: its final model is on disk.
    """

    def __init__(self, timeouts: Timeouts, rng: np.random.Generator, *, has_finished: bool = False) -> None:
        self.timeouts = timeouts
        self.has_finished = has_finished
        self._rng = rng
        self._retry_at: float | None = None
        self._opening_until: float | None = None
        self._hello_at: float | None = None
        self._beat_at: float | None = None
        self._pause = timeouts.reconnect_s
        self._heartbeat_s = timeouts.answer_s
        self._heard_at = 0.0
        self._contact_at = 0.0
        self._farewell_at: float | None = None
        self._unreadable = 0
        self._heard_this_hello = True
        self._allowed = 1
        self._needed = 1
        self._is_being_answered = False
        self._has_delivered = False
        self.is_open = False
        self.is_member = False
        self.last_loss = ""
        """Why the latest line was lost."""

    def connect(self, now: float) -> list[Action]:
        """Start the first connection attempt immediately."""
        self._contact_at = now
        if self.has_finished:
            self.said_goodbye(now)
        return self._open(now)

    def opened(self, now: float) -> None:
        self.is_open, self._opening_until, self._retry_at = True, None, None
        self._heard_at = now
        self._needed, self._has_delivered = 1, False

    def hello_sent(self, now: float) -> None:
        """Note that a hello was sent, and schedule its repetition."""
        self.is_member, self._beat_at = False, None
        self._hello_at = now + self._allowed * self.timeouts.answer_s
        self._heard_this_hello = self._is_being_answered = False

    def unreadable_answer(self) -> bool:
        """Note an unusable answer. True once `UNREADABLE_ANSWERS` hellos in a row had only such answers."""
        if self.is_member or self._heard_this_hello:
            return False
        self._heard_this_hello = True
        self._unreadable += 1
        return self._unreadable >= UNREADABLE_ANSWERS

    def welcomed(self, heartbeat_s: float, now: float) -> None:
        self.is_member, self._hello_at = True, None
        self._unreadable = 0
        self._heartbeat_s, self._pause = heartbeat_s, self.timeouts.reconnect_s
        self._beat_at = now + heartbeat_s
        self._contact_at = now

    def received(self, now: float) -> None:
        """Note a message as a sign of life, and how long a silence this line needed before it."""
        while self._needed < self._allowed and now - self._heard_at >= self._needed * self._least_silence_s():
            self._needed *= 2
        self._heard_at = now
        if self.is_member:
            self._contact_at = now

    def moved(self, now: float) -> None:
        """Note an accepted offer or a slice as a sign of life. It also delays the next hello by as long as the line may
        be silent, because the answer is arriving. Its sender is reachable, even before its welcome is complete."""
        self.received(now)
        self._contact_at = now
        if self._hello_at is not None:
            self._hello_at, self._is_being_answered = now + self._allowed * self._least_silence_s(), True
        if self._farewell_at is not None:
            self._farewell_at = max(self._farewell_at, now + self.timeouts.farewell_s)

    def delivered(self) -> None:
        """Note that an order or a report got through: the line works, however slow it is."""
        self._allowed, self._has_delivered = self._needed, True

    def forgotten(self) -> None:
        """The coordinator does not know us, or no longer does."""
        self.is_member, self._beat_at = False, None

    def lost(self, reason: str, now: float, *, at_most_s: float = math.inf) -> list[Action]:
        """Close, and reconnect after a pause: a random fraction, at least half, of a length that doubles each time."""
        self.last_loss = reason
        wait = min(self._pause * (0.5 + 0.5 * float(self._rng.random())), at_most_s)
        self._pause = min(2.0 * self._pause, self.timeouts.reconnect_cap_s)
        self.closed()
        self._retry_at = now + wait
        facts = {"reason": reason, "again_in_s": round(wait, 3)}
        return [CloseLine(), Log(name="line.lost", facts=facts, warn=True)]

    def closed(self) -> None:
        self.is_open = self.is_member = False
        self._opening_until = self._hello_at = self._beat_at = self._retry_at = None

    def said_goodbye(self, now: float) -> None:
        """The work is done: from now on wait only for the confirmation, for a limited time."""
        if self._farewell_at is None:
            self._farewell_at = now + self.timeouts.farewell_s

    def goes_on(self) -> None:
        """Cancel the farewell: there may be work after all."""
        self.has_finished, self._farewell_at = False, None

    def tick(self, now: float) -> Due:
        """Return what is due: at most one of opening, closing or sending hello at a time."""
        if self._farewell_at is not None and now >= self._farewell_at:
            return Due(farewell_over=True)
        if self._gives_up_at() is not None and now >= (self._gives_up_at() or now):
            return Due(gave_up=True)
        if self._retry_at is not None and now >= self._retry_at:
            return Due(actions=tuple(self._open(now)))
        if self._opening_until is not None and now >= self._opening_until:
            self._allow_more()
            return Due(actions=tuple(self.lost(NO_CONNECTION, now)))
        if self.is_open and now >= self._silent_at():
            if not self._has_delivered:
                self._allow_more()
            return Due(actions=tuple(self.lost("silence", now)))
        if self._hello_at is not None and now >= self._hello_at:
            if self._is_being_answered:
                self._allow_more()
            return Due(hello=True)
        if self._beat_at is not None and now >= self._beat_at:
            self._beat_at = now + self._heartbeat_s
            return Due(beat=True)
        return Due()

    def next_deadline(self) -> float | None:
        """When `tick` may next have something due; None if only an event can change that."""
        times = [self._retry_at, self._opening_until, self._hello_at, self._beat_at, self._farewell_at]
        times += [self._gives_up_at(), self._silent_at() if self.is_open else None]
        return min((time for time in times if time is not None), default=None)

    def check_invariants(self) -> None:
        ways = [self._retry_at is not None, self._opening_until is not None, self.is_open]
        if sum(ways) > 1:
            raise AssertionError("the line is in two states at once")
        if self.is_open and not (self.is_member or self._hello_at is not None):
            raise AssertionError("an open line on which nothing is waited for")

    def _open(self, now: float) -> list[Action]:
        """Open a line. An encrypted handshake takes several messages, so a slow line gets more time for it as well."""
        self._retry_at, self._opening_until = None, now + self._allowed * UNANSWERED_HELLOS * self.timeouts.answer_s
        return [OpenLine()]

    def _silent_at(self) -> float:
        return self._heard_at + self._allowed * self._least_silence_s()

    def _least_silence_s(self) -> float:
        if self.is_member:
            return self.timeouts.silence_beats * self._heartbeat_s
        return UNANSWERED_HELLOS * self.timeouts.answer_s

    def _allow_more(self) -> None:
        self._allowed = min(2 * self._allowed, LONGEST_SILENCE)

    def _gives_up_at(self) -> float | None:
        return None if self.timeouts.give_up_s is None or self.is_member else self._contact_at + self.timeouts.give_up_s
