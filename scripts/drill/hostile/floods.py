"""Attacks that any stranger can make, each a function of (endpoint, seed) that is repeated until stopped.

An attack is one attempt: it connects, does its harm and leaves; whatever the other side does is no error here.
`Attackers` repeats one attack in threads. Seeds make the bytes repeatable; the timing depends on the machine.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Mapping, Sequence

from scripts.drill.hostile.zmtp import RawListener, RawPeer, frame, greeting, message

Attack = Callable[[str, random.Random], int]
"""(endpoint, randomness) -> bytes or messages sent."""

FILLING_MESSAGES = 2_000
FILLING_BYTES = 3_000
"""More than a queue of 16 messages and the kernel's buffers hold, so that the connection is full when it is reset."""

PIECES_BYTES = (65_536, 4_096)
"""What is sent at once: a coordinator takes no large packets from strangers, so a flood also tries small ones."""

ENDLESS_BYTES = 1 << 30
"""Where an endless message stops after all, so that a failing test does not fill the memory."""


def fill_and_reset(endpoint: str, rng: random.Random) -> int:
    """Fill the queue of the other side with whole messages and reset the connection while it is full."""
    peer = RawPeer.connected(endpoint)
    try:
        peer.handshake()
        peer.socket.settimeout(0.2)
        body = rng.randbytes(FILLING_BYTES)
        return peer.send_all(itertools.repeat((body,), FILLING_MESSAGES))
    finally:
        peer.reset()


def ping_and_reset(endpoint: str, rng: random.Random) -> int:
    """Fill the queue with small messages and PING commands in turn and reset: libzmq 4.3.5 aborts its process when it
    decodes a PING that it had put aside with a full queue after the connection broke."""
    peer = RawPeer.connected(endpoint)
    try:
        peer.handshake()
        peer.socket.settimeout(0.2)
        ping = frame(b"\x04PING\x00\x00" + rng.randbytes(8), command=True)
        unit = message((rng.randbytes(100),)) + ping
        return _pour(peer, unit * 500, 8 * 500 * len(unit), piece_bytes=rng.choice(PIECES_BYTES))
    finally:
        peer.reset()


def endless_multipart(
    endpoint: str,
    rng: random.Random,
    *,
    frame_bytes: int = 65_536,
    most_bytes: int = ENDLESS_BYTES,
    first: Sequence[bytes] = (),
) -> int:
    """Send one message whose frames never end. first: whole messages sent before it, such as a hello."""
    peer = RawPeer.connected(endpoint)
    try:
        peer.handshake()
        peer.socket.settimeout(1.0)
        for body in first:
            peer.send(message((body,)))
        batch = frame(rng.randbytes(frame_bytes), more=True)
        batch *= max(1, 65_536 // len(batch))
        return _pour(peer, batch, most_bytes, piece_bytes=rng.choice(PIECES_BYTES))
    finally:
        peer.close()


def tiny_frames(endpoint: str, rng: random.Random) -> int:
    """Do the same with empty frames: two bytes on the wire, but a whole queue entry in memory."""
    return endless_multipart(endpoint, rng, frame_bytes=0, most_bytes=ENDLESS_BYTES // 32)


def garbage(endpoint: str, rng: random.Random) -> int:
    """Complete a handshake, then send whole messages of random bytes."""
    peer = RawPeer.connected(endpoint)
    try:
        peer.handshake()
        peer.socket.settimeout(0.5)
        return peer.send_all((rng.randbytes(rng.randint(1, 400)),) for _ in range(rng.randint(1, 2_000)))
    finally:
        peer.close()


def reconnecting(endpoint: str, rng: random.Random) -> int:
    """Send a few faulty messages per connection: a limit per connection does not stop this."""
    peer = RawPeer.connected(endpoint)
    try:
        peer.handshake()
        return peer.send_all([(rng.randbytes(64),)] * 8)
    finally:
        peer.close()


def broken_handshake(endpoint: str, rng: random.Random) -> int:
    """Send random bytes, a truncated greeting, or an unknown mechanism."""
    peer = RawPeer.connected(endpoint)
    try:
        kind = rng.randrange(4)
        whole = greeting(rng.choice((b"NULL", b"PLAIN", b"CURVE", b"NONSENSE")))
        wire = (rng.randbytes(200), whole[: rng.randrange(64)], whole, whole + frame(rng.randbytes(40), command=True))
        peer.send(wire[kind])
        return len(wire[kind])
    finally:
        peer.reset()


ATTACKS: Mapping[str, Attack] = {
    "fill-and-reset": fill_and_reset,
    "ping-and-reset": ping_and_reset,
    "endless-multipart": endless_multipart,
    "tiny-frames": tiny_frames,
    "garbage": garbage,
    "reconnecting": reconnecting,
    "broken-handshake": broken_handshake,
}
"""Everything a stranger without keys may try, by name."""


class Attackers:
    """Repeats one attack from several threads while the block lasts."""

    def __init__(self, attack: Attack, endpoint: str, *, seed: int, threads: int = 1) -> None:
        self._attack, self._endpoint, self._seed = attack, endpoint, seed
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(threads)]
        self._lock = threading.Lock()
        self.attempts = 0
        """Attacks made so far."""
        self.refused = 0
        """How many of these were cut off before they were done."""

    def __enter__(self) -> Attackers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        for turn in itertools.count():
            if self._stopping.is_set():
                return
            refused = 0
            try:
                self._attack(self._endpoint, random.Random(f"{self._seed}/{number}/{turn}"))  # noqa: S311 - no secret
            except OSError:
                refused = 1
                self._stopping.wait(0.02)  # nobody listens, or the limit of connections is reached
            with self._lock:
                self.attempts += 1
                self.refused += refused


class FillingListener:
    """A fake coordinator: fills the queue of whoever connects and resets the connection, again and again."""

    def __init__(self, *, seed: int, with_pings: bool) -> None:
        self._with_pings = with_pings
        self._rng = random.Random(seed)  # noqa: S311 - no secret
        self._listener = RawListener()
        self.endpoint = self._listener.endpoint
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.resets = 0
        """Connections filled and reset so far."""

    def __enter__(self) -> FillingListener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            peer = self._listener.accept()
            if peer is None:
                continue
            peer.socket.settimeout(0.2)
            body = self._rng.randbytes(100 if self._with_pings else FILLING_BYTES)
            ping = frame(b"\x04PING\x00\x00", command=True) if self._with_pings else b""
            _pour(peer, (message((body,)) + ping) * 100, FILLING_MESSAGES * FILLING_BYTES, piece_bytes=65_536)
            peer.reset()
            self.resets += 1


def _pour(peer: RawPeer, batch: bytes, most_bytes: int, *, piece_bytes: int) -> int:
    pieces = [batch[start : start + piece_bytes] for start in range(0, len(batch), piece_bytes)]
    sent = 0
    try:
        while sent < most_bytes:
            for piece in pieces:
                peer.send(piece)
                sent += len(piece)
    except OSError:  # cut off, or the other side stopped reading
        return sent
    return sent
