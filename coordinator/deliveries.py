"""Payloads on their way out: what was offered to whom, and the slices that credit and line allow.

The bytes are files; each slice is read into a buffer of its own, because the socket keeps it until it has left. Knows
nothing of the run; a payload that is gone meanwhile is withdrawn, and its receiver will ask for the order again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from coordinator.model_forms import Payload
from protocol.messages import Cancel, Grant, Heartbeat, Message, Step
from protocol.traffic import Dispatch, To
from protocol.transfer import Span


class Deliveries:
    """Open offers by (connection, transfer). What is due to be sent after any call is taken from `due`."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._offered: dict[tuple[str, str], tuple[Payload, Step | None]] = {}
        self._spans: deque[To[Span]] = deque()

    @property
    def in_flight_bytes(self) -> int:
        return self._dispatch.in_flight_bytes

    def offer(self, connection: str, payload: Payload, step: Step | None) -> None:
        """A message that announces this payload is about to be said. Earlier orders' payloads are of no more use; the
        initial model's, which has no step, is."""
        if payload.transfer is None:
            return
        outdated = [key for key, (_, before) in self._offered.items() if key[0] == connection and before is not None]
        self._drop(key for key in outdated if key[1] != payload.transfer)
        self._offered[connection, payload.transfer] = (payload, step)
        self._dispatch.offer(connection, payload.transfer, payload.size_bytes)

    def granted(self, connection: str, grant: Grant) -> None:
        """A grant came: slices are due, to any peers."""
        self._spans += self._dispatch.granted(connection, grant)

    def beat(self, connection: str, beat: Heartbeat) -> None:
        """A heartbeat that has the order needs its payload no more, though the last receipt was lost."""
        have = beat.have
        if have is not None:
            offered = [(key, step) for key, (_, step) in self._offered.items() if key[0] == connection]
            self._drop(key for key, step in offered if step is None or have.place >= step.place)

    def drop(self, connection: str, transfer: str | None = None) -> None:
        """End one delivery to a peer, or all: it has gone, begins afresh, or cancels."""
        self._drop([key for key in self._offered if key[0] == connection and transfer in (None, key[1])])

    def due(self) -> Iterator[To[Message]]:
        """What is to be said now; each slice is read when it is taken."""
        while self._spans:
            one = self._spans.popleft()
            key = (one.peer, one.what.transfer)
            if key not in self._offered:
                continue
            try:
                piece = self._offered[key][0].read(one.what.start, one.what.stop)
            except OSError:  # collected meanwhile
                self._drop([key])
                yield To(one.peer, Cancel(transfer=one.what.transfer, code="superseded"))
            else:
                yield To(one.peer, one.what.filled(piece))

    def _drop(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in list(keys):
            del self._offered[key]
            self._spans += self._dispatch.drop(*key)
