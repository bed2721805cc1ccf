"""Builds valid messages to mutate: one of every kind, those with tensors in several sizes.

They are built from the protocol's own types, so that a changed message changes the corpus too.
"""

from __future__ import annotations

import numpy as np

from protocol.codec import encode
from protocol.limits import EMBEDDED_BYTES, SLICE_BYTES
from protocol.messages import (
    Anchor,
    Cancel,
    Error,
    Finish,
    Goodbye,
    Grant,
    Heartbeat,
    HelloRequired,
    Leave,
    Message,
    Reject,
    Score,
    Slice,
    Stats,
    Step,
    Train,
    Update,
    Welcome,
)
from protocol.tensors import Layout, TensorSet, WireTensor
from scripts.fuzz.mutation import Frames
from scripts.inmemory.setup import MOMENTS, RUN, Setup

NAME = "ab" * 16
SCORE = Score(model="delivered", split="test", samples=10, correct=9, loss=0.25, macro_f1=0.9)


def frames_of(message: Message) -> Frames:
    """Return a message's frames on the wire."""
    return tuple(map(bytes, encode(message)))


def vector(values: int) -> TensorSet:
    return TensorSet.of({"w": np.zeros(values, dtype=np.float32)})


def everything() -> list[Message]:
    """Return one message of every kind; those with tensors embedded, framed and offered."""
    setup = Setup()
    large = Layout((WireTensor(name="w", dtype="float32", shape=(SLICE_BYTES // 4 + 1,)),))
    sets = [vector(4), vector(EMBEDDED_BYTES // 4 + 4), TensorSet(layout=large, data=None, transfer=NAME)]
    sets.append(TensorSet.of({"w": np.zeros((2, 2), dtype=np.float32)}, "f16"))
    messages: list[Message] = [
        setup.hello("a", None, 1),
        setup.hello("a", RUN, 2),
        Reject(code="wrong-classes", reason="the class names differ", ours="a, b", yours="b, a"),
        HelloRequired(),
        Leave(run=RUN, reason="maintenance"),
        Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=None),
        Stats(run=RUN, round_no=0, samples=640, moments=MOMENTS),
        Goodbye(run=RUN, round_no=2, scores=(SCORE,)),
        Heartbeat(run=RUN, round_no=1, have=Step(kind="train", round_no=1), want=Step(kind="finish", round_no=2)),
        Heartbeat(run=RUN, round_no=0, have=None, want=None),
        Error(code="not-finite", reason="a NaN", about=Step(kind="update", round_no=1)),
        Grant(transfer=NAME, received=0, until=SLICE_BYTES, again=True),
        Slice(transfer=NAME, offset=0, data=memoryview(bytes(min(SLICE_BYTES, 4096)))),
        Cancel(transfer=NAME, code="superseded"),
    ]
    for one in sets:
        messages += [
            Welcome(run=RUN, participant="a", round_no=0, heartbeat_s=1.0, plan=setup.plan, initial=one),
            Anchor(run=RUN, round_no=0, measure="none", weights=one),
            Train(run=RUN, round_no=1, phase="mixed", measure="none", weights=one),
            Finish(run=RUN, round_no=2, reason="rounds", weights=one),
            Update(run=RUN, round_no=1, steps=3, train_loss=0.5, scores=(SCORE,), weights=one),
            Update(run=RUN, round_no=0, steps=3, train_loss=None, scores=(), weights=one, statistics=MOMENTS),
        ]
    return messages
