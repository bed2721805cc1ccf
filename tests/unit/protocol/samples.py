"""One of everything that can be said, small enough to read; tests that want another value use dataclasses.replace."""

from __future__ import annotations

import numpy as np

from protocol.limits import SLICE_BYTES
from protocol.messages import (
    Anchor,
    Cancel,
    Compute,
    Error,
    Finish,
    Goodbye,
    Grant,
    Heartbeat,
    Hello,
    HelloRequired,
    Leave,
    Message,
    Plan,
    Reject,
    Score,
    Sgd,
    Slice,
    Stats,
    Step,
    Train,
    Update,
    Welcome,
)
from protocol.tensors import Layout, TensorSet, WireTensor

RUN = "run-1"
DIGEST = "0123456789abcdef"
NAME = "ab" * 16

SMALL = TensorSet.of({"fc.weight": np.arange(6, dtype=np.float32).reshape(2, 3)})
"""24 bytes: rides inside the header."""

MEDIUM = TensorSet.of({"conv.weight": np.ones(20_000, dtype=np.float32), "conv.bias": np.ones((), dtype=np.float32)})
"""80,004 bytes: rides in a frame of its own."""

LARGE = TensorSet(
    layout=Layout((WireTensor(name="fc.weight", dtype="float32", shape=(SLICE_BYTES // 4 + 1,)),)),
    data=None,
    transfer=NAME,
)
"""One value above a slice: announced, not there."""

MOMENTS = TensorSet.of(
    {
        "bn1/count": np.array(640, dtype=np.int64),
        "bn1/mean": np.array([0.5, -0.5]),
        "bn1/variance": np.array([1.0, 2.0]),
    }
)

PLAN = Plan(
    strategy="fedap",
    options={"self_weight": 0.5, "equal": False, "label": "a", "cap": None, "k": 3},
    mode="barrier",
    rounds=20,
    seed=7,
    split="paper",
    encoding="f32",
    model_layout=DIGEST,
    shared_layout=DIGEST,
    sgd=Sgd(learning_rate=0.01, batch_size=32),
    compute=Compute(),
)

HELLO = Hello(
    name="hospital-1",
    instance="0f" * 16,
    software="fedap 0.1.0",
    run=None,
    model_layout=DIGEST,
    classes=DIGEST,
    input_shape=(1, 28, 28),
    preprocessing=DIGEST,
    train_samples=500,
    test_samples=500,
)
WELCOME = Welcome(run=RUN, participant="p01", round_no=0, heartbeat_s=5.0, plan=PLAN, initial=SMALL)
SCORE = Score(model="delivered", split="test", samples=10, correct=9, loss=0.25, macro_f1=0.9)


def train(round_no: int, weights: TensorSet = SMALL) -> Train:
    return Train(run=RUN, round_no=round_no, phase="mixed", measure="none", weights=weights)


def update(round_no: int, weights: TensorSet = SMALL) -> Update:
    return Update(run=RUN, round_no=round_no, steps=16, train_loss=0.7, scores=(SCORE,), weights=weights)


def heartbeat(*, have: Step | None = None, want: Step | None = None, round_no: int = 0) -> Heartbeat:
    return Heartbeat(run=RUN, round_no=round_no, have=have, want=want)


def slice_of(data: bytes, *, offset: int = 0, transfer: str = NAME) -> Slice:
    return Slice(transfer=transfer, offset=offset, data=memoryview(data))


FINISH = Finish(run=RUN, round_no=20, reason="rounds", weights=SMALL)

EVERYTHING: tuple[Message, ...] = (
    HELLO,
    WELCOME,
    Reject(code="wrong-classes", reason="the class names differ", ours="a, b", yours="b, a"),
    HelloRequired(),
    Leave(run=RUN, reason="maintenance"),
    Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=None),
    Stats(run=RUN, round_no=0, samples=640, moments=MOMENTS),
    train(3, MEDIUM),
    train(3, LARGE),
    update(3, MEDIUM),
    Update(
        run=RUN,
        round_no=3,
        steps=0,
        train_loss=None,
        scores=(),
        weights=MEDIUM,
        statistics=MOMENTS,
        tables=TensorSet.of({"test": np.eye(200, dtype=np.int64)}),
    ),
    FINISH,
    Goodbye(run=RUN, round_no=20, scores=(SCORE,)),
    heartbeat(have=Step(kind="train", round_no=3), want=Step(kind="finish", round_no=4)),
    Error(code="not-finite", reason="a NaN in fc.weight", about=Step(kind="update", round_no=3)),
    Grant(transfer=NAME, received=SLICE_BYTES, until=2 * SLICE_BYTES, again=True),
    slice_of(b"12345678"),
    Cancel(transfer=NAME, code="superseded"),
)
