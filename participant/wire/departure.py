"""Send messages: each is recorded first, then passed to the socket; one that cannot be recorded is not sent.

A full disk does not end the participant: recording is retried periodically, and signs of life, for which disk space is
reserved, overtake the waiting messages. The protocol tolerates lost messages, so a long queue drops its oldest ones:
whatever still matters is sent again.
"""

from __future__ import annotations

from collections import deque

import structlog

from participant.record.disk import RETRY_S, is_full
from participant.wire.line import Line
from participant.wire.message_stream import Outgoing
from participant.wire.sent_log import SentLog

log = structlog.get_logger()

MOST_WAITING = 64
"""Messages kept while the disk is full: one window of slices and the small messages between them."""


class MessageSender:
    """Sends queued messages over a line, as far as the record and the socket accept them."""

    def __init__(self, sent: SentLog) -> None:
        self._sent = sent
        self.retry_at: float | None = None
        """When to retry recording on a full disk; None: the disk is not full."""

    def flush(self, line: Line | None, outbound: deque[Outgoing], now: float) -> None:
        """Send what may be sent now. Raise OSError if recording fails for any reason but a full disk."""
        while self.retry_at is not None and len(outbound) > MOST_WAITING:  # even while the socket accepts nothing
            outbound.popleft()
        while line is not None and line.is_up and outbound and line.can_send():
            if self.retry_at is not None and now < self.retry_at:
                self._pass(line, outbound)
                return
            outgoing = outbound[0]
            try:
                self._sent.note(outgoing.message, outgoing.frames)
            except OSError as error:
                if not is_full(error):
                    raise
                self._note_full(str(error), now)
                continue
            if self._sent.is_on_reserve:
                self._note_full("recorded in the reserved space", now)
            elif self.retry_at is not None:
                log.info("disk.free", what="sent.jsonl", effect="messages are sent again")
                self.retry_at = None
            if not line.send(outgoing.frames):
                return
            outbound.popleft()

    def _note_full(self, reason: str, now: float) -> None:
        if self.retry_at is None:
            log.warning(
                "disk.full", what="sent.jsonl", reason=reason, effect="only heartbeats are sent until there is space"
            )
        self.retry_at = now + RETRY_S

    def _pass(self, line: Line, outbound: deque[Outgoing]) -> None:
        """Send signs of life ahead of the waiting messages."""
        waiting = [one for one in outbound if not SentLog.has_room_set_aside(one.message)]
        signs = [one for one in outbound if SentLog.has_room_set_aside(one.message)]
        outbound.clear()
        outbound.extend(waiting)
        for outgoing in signs:
            try:
                self._sent.note(outgoing.message, outgoing.frames)
            except OSError as error:
                if not is_full(error):
                    raise
                continue  # the reserve is full too: drop this one; a later one may be sent
            if not line.can_send() or not line.send(outgoing.frames):
                break
