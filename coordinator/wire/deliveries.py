"""Payloads on their way out: what was offered to whom, and the slices that credit and line allow.

The bytes are files; each slice is read into a buffer of its own, because the socket keeps it until it has left. Knows
nothing of the run; a payload that is gone meanwhile is given up, and its receiver will ask for the order again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from coordinator.record.model_forms import Payload
from protocol.messages import Grant, Heartbeat, Slice, Step
from protocol.traffic import Dispatch, To
from protocol.transfer import Span


class Deliveries:
    """Open offers by (connection, transfer). What is to be sent after any call is taken from `due`."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._offered: dict[tuple[str, str], tuple[Payload, Step | None]] = {}
        self._spans: dict[tuple[str, str, int], To[Span]] = {}
        """Slices to be sent, in order. By place: one that is asked for again while it waits is not sent twice."""

    @property
    def is_waiting(self) -> bool:
        """Whether slices are to be sent that found no room yet."""
        return bool(self._spans)

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
        self._queue(self._dispatch.granted(connection, grant))

    def beat(self, connection: str, beat: Heartbeat) -> None:
        """A heartbeat that has the order needs its payload no more, though the last receipt was lost."""
        have = beat.have
        if have is not None:
            offered = [(key, step) for key, (_, step) in self._offered.items() if key[0] == connection]
            self._drop(key for key, step in offered if step is None or have.place >= step.place)

    def drop(self, connection: str, transfer: str | None = None) -> None:
        """End one delivery to a peer, or all: it has gone, begins afresh, or cancels."""
        self._drop([key for key in self._offered if key[0] == connection and transfer in (None, key[1])])

    def due(self, has_room: Callable[[str], bool]) -> Iterator[To[Slice]]:
        """Slices for peers that have room, in order; each is read when it is taken. The others go on waiting."""
        full: set[str] = set()
        for key, one in list(self._spans.items()):
            if one.peer in full or key not in self._spans:
                continue
            if (one.peer, one.what.transfer) not in self._offered:
                del self._spans[key]
            elif not has_room(one.peer):
                full.add(one.peer)
            else:
                del self._spans[key]
                piece = self._read(one)
                if piece is not None:
                    yield To(one.peer, piece)

    def _read(self, one: To[Span]) -> Slice | None:
        try:
            payload, _ = self._offered[one.peer, one.what.transfer]
            return one.what.filled(payload.read(one.what.start, one.what.stop))
        except OSError:  # collected meanwhile: who waits for it will ask for the order, and get a newer one
            self._drop([(one.peer, one.what.transfer)])
            return None

    def _drop(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in list(keys):
            del self._offered[key]
            self._queue(self._dispatch.drop(*key))

    def _queue(self, spans: Iterable[To[Span]]) -> None:
        for one in spans:
            self._spans[one.peer, one.what.transfer, one.what.start] = one
