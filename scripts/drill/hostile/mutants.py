"""Strangers who know the protocol: they send real messages with changed bits, and hellos under members' names.

As in `floods`, each attack is one attempt, and its bytes follow from the given randomness.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from protocol.codec import encode
from protocol.messages import Goodbye, Grant, Heartbeat, Hello, Leave, Message, Slice, Stats, Step, Update
from protocol.tensors import TensorSet
from scripts.bench.light_peers import hello_of
from scripts.drill.hostile.floods import Attack
from scripts.drill.hostile.zmtp import RawPeer

_MOMENTS = {"2/count": np.array(48, dtype=np.int64), "2/mean": np.zeros(4), "2/variance": np.ones(4)}
_TRANSFER = "ab" * 16


def speech(hello: Hello, run: str, round_no: int) -> list[Message]:
    """Return one message of every kind that a participant may send."""
    weights = TensorSet.of({"1.weight": np.ones((4, 4), dtype=np.float32)})
    return [
        hello,
        Heartbeat(run=run, round_no=round_no, have=None, want=Step(kind="train", round_no=round_no)),
        Stats(run=run, round_no=round_no, samples=48, moments=TensorSet.of(_MOMENTS)),
        Update(run=run, round_no=round_no, steps=3, train_loss=1.0, scores=(), weights=weights),
        Goodbye(run=run, round_no=round_no, scores=()),
        Leave(run=run, reason="none"),
        Grant(transfer=_TRANSFER, received=0, until=1 << 22, again=True),
        Slice(transfer=_TRANSFER, offset=0, data=memoryview(bytes(1000))),
    ]


def mutated(frames: Sequence[bytes], rng: random.Random) -> list[bytes]:
    """Return the frames with a few bytes changed, cut, doubled or added; sometimes unchanged."""
    made = [bytearray(frame) for frame in frames]
    for _ in range(rng.randint(0, 4)):
        frame = rng.choice(made)
        at = rng.randrange(min(len(frame), 400) + 1)
        how = rng.randrange(4)
        if how == 0 and at < len(frame):
            frame[at] = rng.randrange(256)
        elif how == 1:
            del frame[at:]
        elif how == 2:
            frame[at:at] = rng.randbytes(rng.randint(1, 8))
        else:
            made.append(bytearray(frame[:at]))
    return [bytes(frame) for frame in made]


def mutants(initial: Path, names: Sequence[str], run: str) -> Attack:
    """Return an attack that sends up to some hundred mutated messages on one connection."""

    def attack(endpoint: str, rng: random.Random) -> int:
        peer = RawPeer.connected(endpoint)
        try:
            peer.handshake()
            peer.socket.settimeout(0.5)
            hello = _hello(initial, rng, names)
            said = speech(hello, run, rng.randrange(6))
            plain = [[bytes(frame) for frame in encode(message)] for message in said]
            return peer.send_all(mutated(rng.choice(plain), rng) for _ in range(rng.randint(1, 400)))
        finally:
            peer.close()

    return attack


def hellos(initial: Path, names: Sequence[str], run: str) -> Attack:
    """Return an attack that sends valid hellos under a member's name or an unknown one, from its own instance."""

    def attack(endpoint: str, rng: random.Random) -> int:
        peer = RawPeer.connected(endpoint)
        try:
            peer.handshake()
            hello = replace(_hello(initial, rng, names), run=run)
            return peer.send_all([[bytes(frame) for frame in encode(hello)]] * rng.randint(1, 3))
        finally:
            peer.close()

    return attack


def _hello(initial: Path, rng: random.Random, names: Sequence[str]) -> Hello:
    name = rng.choice([*names, f"x{rng.randrange(1000)}"])
    return replace(hello_of(initial, name), instance=rng.randbytes(16).hex())
