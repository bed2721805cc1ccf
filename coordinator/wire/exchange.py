"""Connects the socket and the machine: turns frames into events and actions into messages, by the protocol's rules.

In: size, codec, conversation, then the event. Every message leads to events or is dropped, counted and perhaps
answered; nothing that a peer sends makes `receive` raise. Out: `Orders` finds the tensors that an action names and
offers those too large for a message. Keeps no state of the run and decides nothing about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import structlog

from coordinator.decisions.actions import Order, SendOrder, SendWelcome, Source
from coordinator.decisions.events import Beat, Event, HelloArrived, LeaveArrived, PeerFaulted, PeerLost, SignOfLife
from coordinator.record.model_forms import ModelForms, Payload
from coordinator.wire.connections import Arrivals, Deliveries, Peer, Peers, Unwanted, step_of
from coordinator.wire.router import Received, Router
from fedap_core.errors import InvalidInput
from protocol import conversation
from protocol.codec import decode, encode, frame_sizes, offers
from protocol.errors import BadChecksum, BadRound, LocalProtocolError, RemoteProtocolError
from protocol.limits import TEXT_CHARS
from protocol.messages import (
    Anchor,
    Cancel,
    Error,
    Finish,
    Goodbye,
    Grant,
    Heartbeat,
    Hello,
    HelloRequired,
    Leave,
    Message,
    PeerWeight,
    Plan,
    Slice,
    Stats,
    Step,
    Train,
    Update,
    Welcome,
)
from protocol.tensors import TensorSet
from protocol.traffic import To

log = structlog.get_logger()

LIFE_SIGN_EVERY_S = 1.0
"""Slices and grants are signs of life; the machine gets at most one event per this many seconds."""


class Exchange:
    """All peers of one socket. now: from any monotonic clock."""

    def __init__(
        self,
        *,
        router: Router,
        peers: Peers,
        arrivals: Arrivals,
        deliveries: Deliveries,
        admits: Callable[[str], bool],
    ) -> None:
        self._router = router
        self._peers = peers
        self._gone: dict[str, bool] = {}
        """Connections that are gone, and whether the socket has been read since."""
        self._arrivals = arrivals
        self._deliveries = deliveries
        self._admits = admits
        self.counts: Counter[str] = Counter()
        """Dropped messages: by code, or `stale`, `unknown-key`, `rate`; our own as `outdated`, `withheld`, `spoilt`."""
        self._traffic: Counter[tuple[str, int, str]] = Counter()

    def taken_traffic(self) -> Mapping[tuple[str, int, str], int]:
        """Return the bytes of messages by (member, round of its order, "in" or "out") since the last call."""
        taken, self._traffic = self._traffic, Counter()
        return taken

    @property
    def cut_connections(self) -> int:
        """Number of connections cut because they had more unread bytes than an honest peer sends."""
        return self._router.cut_connections

    @property
    def is_waiting(self) -> bool:
        """Whether to poll: slices wait for room, which the socket does not signal, or a connection is gone."""
        return self._deliveries.is_waiting or bool(self._gone)

    @property
    def is_delivering(self) -> bool:
        """Whether a payload is being sent in slices, each of which waits for a grant."""
        return bool(self._deliveries)

    # ---- in

    def receive(self, received: Received, now: float) -> list[Event]:
        """Return the events of a received message; usually one or none."""
        if received.identity and not self._admits(received.identity):  # removed from the list since the handshake
            self.counts["unknown-key"] += 1
            return []
        peer = self._peers.meet(received.connection, received.address, now)
        if peer.member is not None:
            self._traffic[peer.member, peer.round_no, "in"] += sum(frame_sizes(received.frames))
        if not peer.messages.take(now):
            return self._fault(peer, "rate", "more messages than the limit allows", None, now)
        try:
            message = decode(received.frames)
            return self._judge(peer, message, received.identity, now)
        except BadRound as fault:
            return self._ahead(peer, fault, now)
        except RemoteProtocolError as fault:
            return self._fault(peer, fault.code, str(fault), None, now)

    def _ahead(self, peer: Peer, fault: BadRound, now: float) -> list[Event]:
        """Handle a report on a round that was never ordered, as far as we know: no strike, because our folder may be an
        older copy. The member's heartbeats show which step it holds."""
        self.counts[fault.code] += 1
        if peer.answers.take(now):
            log.warning("report.ahead", participant=peer.member, reason=str(fault))
            self.send(peer.connection, Error(code=fault.code, reason=printable(str(fault)), about=None))
        return self._sign_of_life(peer, now)

    def _judge(self, peer: Peer, message: Message, identity: str, now: float) -> list[Event]:
        if peer.conversation.receive(message) is conversation.Freshness.STALE:
            self.counts["stale"] += 1
            if peer.conversation.hello_required and self._peers.may_answer(peer, now):
                self.send(peer.connection, HelloRequired())
            return []
        if isinstance(message, Hello):  # restarts both directions, and may be another member's from now on
            self._deliveries.drop(peer.connection)
            self._grant(self._arrivals.drop(peer.connection))
            peer.identity, peer.latest_update_round = identity or message.name, None
            return [HelloArrived(connection=peer.connection, identity=peer.identity, hello=message)]
        if isinstance(message, Stats | Update | Goodbye):
            return self._report(peer, message, now)
        return self._signal(peer, message, now)

    def _signal(self, peer: Peer, message: Message, now: float) -> list[Event]:
        connection = peer.connection
        if isinstance(message, Heartbeat):
            self._deliveries.beat(connection, message)
            return [Beat(connection=connection, beat=message)]
        if isinstance(message, Leave):
            return [LeaveArrived(connection=connection, reason=message.reason)]
        if isinstance(message, Slice):
            return self._slice(peer, message, now)
        if isinstance(message, Grant):
            self._deliveries.granted(connection, message)
        elif isinstance(message, Cancel):
            self._deliveries.drop(connection, message.transfer)
            self._grant(self._arrivals.drop(connection, message.transfer))
            log.info("transfer.cancelled", participant=peer.member, code=message.code)
        elif isinstance(message, Error):
            log.warning("peer.complained", participant=peer.member, code=message.code, reason=message.reason)
        return self._sign_of_life(peer, now)

    def _report(self, peer: Peer, message: Stats | Update | Goodbye, now: float) -> list[Event]:
        try:
            grants, event = self._arrivals.report(peer, message)
        except Unwanted as unwanted:
            for offer in offers(message):
                self.send(peer.connection, Cancel(transfer=str(offer.transfer), code=unwanted.code))
            return self._fault(peer, unwanted.code, str(unwanted), step_of(message), now)
        except OSError as error:
            return self._no_space(peer, error, step_of(message))
        self._grant(grants)
        if isinstance(message, Update) and event is not None:
            peer.latest_update_round = message.round_no
        return [event] if event is not None else self._sign_of_life(peer, now)

    def _slice(self, peer: Peer, piece: Slice, now: float) -> list[Event]:
        try:
            grants, event = self._arrivals.slice(peer, piece)
        except BadChecksum:
            if not self._arrivals.broken(peer):
                raise
            self.counts["spoilt"] += 1  # still wanted, and sent again from the beginning
            return self._sign_of_life(peer, now)
        except OSError as error:
            return self._no_space(peer, error, None)
        self._grant(grants)
        return [event] if event is not None else self._sign_of_life(peer, now)

    def _no_space(self, peer: Peer, error: OSError, about: Step | None) -> list[Event]:
        """Handle a failed write. Nothing is lost: the report is requested again when there is space."""
        self.counts["no-space"] += 1
        log.error("payload.not_stored", participant=peer.member, reason=str(error))
        self._grant(self._arrivals.drop(peer.connection))
        self.send(peer.connection, Error(code="no-space", reason="no disk space for the payload", about=about))
        return []

    def _sign_of_life(self, peer: Peer, now: float) -> list[Event]:
        if now - peer.life_sign_at < LIFE_SIGN_EVERY_S:
            return []
        peer.life_sign_at = now
        return [SignOfLife(connection=peer.connection)]

    def _fault(self, peer: Peer, code: str, reason: str, about: Step | None, now: float) -> list[Event]:
        """Count a fault; answer it, log it and notify the machine, all at a limited rate."""
        self.counts[code] += 1
        peer.faults += 1
        if not self._peers.may_answer(peer, now):
            return []
        log.warning("message.refused", participant=peer.member, connection=peer.connection, code=code, reason=reason)
        self.send(peer.connection, Error(code=code, reason=printable(reason), about=about))
        return [PeerFaulted(connection=peer.connection, code=code, reason=printable(reason))]

    # ---- out

    def send(self, connection: str, message: Message) -> None:
        """Send a message if the conversation allows it. If the connection is gone, `flush` reports it."""
        peer = self._peers.get(connection)
        if peer is None:
            return
        try:
            peer.conversation.send(message)
            frames = encode(message)
        except LocalProtocolError as error:
            # decided before its hello was read: whatever still matters is sent again after the welcome, which will
            # follow; or a second welcome for hellos read together: the first one has answered both
            if peer.conversation.state is conversation.PeerState.PENDING or message.KIND == Welcome.KIND:
                self.counts["outdated"] += 1
                return
            # a bug of ours, but no reason to end the run
            log.error("message.withheld", participant=peer.member, kind=message.KIND, reason=str(error))
            self.counts["withheld"] += 1
            return
        if peer.member is not None:
            self._traffic[peer.member, peer.round_no, "out"] += sum(frame_sizes(frames))
        send = self._router.send_slice if isinstance(message, Slice) else self._router.send
        if not send(connection, frames):
            self._gone.setdefault(connection, False)

    def send_welcome(self, connection: str, member: str, message: Message) -> None:
        """Send `welcome` and assign the connection to the member."""
        peer = self._peers.get(connection)
        if peer is None:
            self._gone.setdefault(connection, False)
            return
        self._peers.welcome(peer, member)
        self._router.trust(connection)
        self.send(connection, message)

    def base_of(self, connection: str) -> int | None:
        """Return the round of the update that the peer certainly holds as its latest: it was received over this
        connection, and nothing was ordered since. None if that is not certain."""
        peer = self._peers.get(connection)
        return peer.latest_update_round if peer is not None and peer.latest_update_round == peer.round_no else None

    def send_order(self, connection: str, message: Message, step: Step) -> None:
        """Send an order; its payload, if too large for the message, was offered to `Deliveries` before."""
        peer = self._peers.get(connection)
        if peer is not None:
            peer.round_no = step.round_no
        self.send(connection, message)

    def forget(self, connection: str) -> None:
        """Forget a connection; its credit and bandwidth go to others. A hello that was read in the same iteration,
        after this was decided, is still answered."""
        is_gone, peer = self._gone.pop(connection, None) is not None, self._peers.get(connection)
        if peer is not None and peer.conversation.state is conversation.PeerState.PENDING and not is_gone:
            self._peers.keep_as_stranger(peer)
        else:
            self._peers.forget(connection)
        self._router.forget(connection)
        self._deliveries.drop(connection)
        self._grant(self._arrivals.drop(connection))

    def flush(self) -> list[Event]:
        """Send slices that are due, and retry messages to slow peers. Lost connections are reported one iteration
        later: their last messages, such as `leave`, may still be in the socket and are received first."""
        for one in self._deliveries.due(self._router.has_room):
            self.send(one.peer, one.what)
        for connection in self._router.flush():
            self._gone.setdefault(connection, False)
        lost = [connection for connection, was_heard in self._gone.items() if was_heard]
        for connection in lost:
            self.forget(connection)
        self._gone = dict.fromkeys(self._gone, True)
        return [PeerLost(connection=connection) for connection in lost]

    def _grant(self, grants: Iterable[To[Grant]]) -> None:
        for one in grants:
            self.send(one.peer, one.what)


def printable(reason: str) -> str:
    """Return text that may be sent: printable, and not too long."""
    return "".join(char if char.isprintable() else "?" for char in reason)[:TEXT_CHARS]


class Orders:
    """Sends the messages with tensors: welcome and orders."""

    def __init__(
        self, *, run: str, plan: Plan, heartbeat_s: float, forms: ModelForms, deliveries: Deliveries, exchange: Exchange
    ) -> None:
        self._run = run
        self._plan = plan
        self._heartbeat_s = heartbeat_s
        self._forms = forms
        self._deliveries = deliveries
        self._exchange = exchange

    def welcome(self, action: SendWelcome) -> None:
        """Send `welcome`, with the initial model if requested."""
        payload = self._forms.initial() if action.initial else None
        if payload is not None:
            self._deliveries.offer(action.connection, payload, None)
        message = Welcome(
            run=self._run,
            participant=action.member,
            round_no=action.round_no,
            heartbeat_s=self._heartbeat_s,
            plan=self._plan,
            initial=payload.tensor_set() if payload is not None else None,
        )
        self._exchange.send_welcome(action.connection, action.member, message)

    def order(self, action: SendOrder) -> None:
        """Send `anchor`, `train` or `finish`."""
        order = action.order
        try:
            payload = self._payload(order)
            difference = None if payload is None else payload.difference
            if difference is not None and difference.base != self._exchange.base_of(action.connection):
                difference = None
            tensors = payload.tensor_set() if payload is not None and difference is None else None
        except (InvalidInput, OSError) as error:
            log.error("order.withheld", participant=action.member, round=order.round_no + 1, reason=str(error))
            return
        peers = self._forms.peers(order.peers) if order.peers else None
        for one in (payload, peers):
            if one is not None:
                self._deliveries.offer(action.connection, one, order.step)
        message = self._message(order, tensors, payload.uploads if payload is not None else None, peers)
        if difference is not None and isinstance(message, Train | Finish):
            message = replace(message, weights=difference.tensors, base=difference.base)
        self._exchange.send_order(action.connection, message, order.step)

    def _payload(self, order: Order) -> Payload | None:
        if order.weights is None or (self._forms.sealed and not self._is_sendable(order)):
            return None
        if order.kind == Anchor.KIND:
            return self._forms.whole_anchor(order.weights)
        return self._forms.weights(order.weights, order.phase)

    @staticmethod
    def _is_sendable(order: Order) -> bool:
        """In a sealed run, only anchors and rows mixed from uploads are sent: members start from their own files."""
        return order.kind == Anchor.KIND or (order.weights is not None and order.weights.source is Source.ROW)

    def _message(
        self, order: Order, weights: TensorSet | None, uploads: TensorSet | None, peers: Payload | None
    ) -> Message:
        run, round_no = self._run, order.round_no
        if order.kind == Anchor.KIND:
            return Anchor(run=run, round_no=round_no, measure=str(order.measure), weights=weights, uploads=uploads)
        if order.kind == Finish.KIND:
            return Finish(
                run=run,
                round_no=round_no,
                reason=str(order.reason),
                weights=weights,
                uploads=uploads,
                mixed_from=tuple(PeerWeight(member=name, weight=min(weight, 1.0)) for name, weight in order.mixed_from),
                similarity=order.similarity,
            )
        if weights is None:
            weights = TensorSet.of({})
        phase, measure = str(order.phase), str(order.measure)
        return Train(
            run=run,
            round_no=round_no,
            phase=phase,
            measure=measure,
            weights=weights,
            uploads=uploads,
            peers=peers.tensor_set() if peers is not None else None,
        )
