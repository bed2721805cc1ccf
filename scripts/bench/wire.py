"""Measures an update over loopback: from a flat buffer to verified bytes at a real coordinator, beside a raw socket.

The path is the product's: a participant's line and post, its log of sent messages, slices under credit, the
coordinator's socket thread, its store and its check of every byte. The raw socket moves the same bytes into memory. For
comparison there are raw sockets with the same duties, which show what hashing and the disk cost anyone, and the
product's sockets without any duties, which show what the line costs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedap_core.preprocessing import IMAGE_8BIT
from participant.record.model_file import make_initial, write_model
from participant.wire.keys import Keys
from participant.wire.line import Address, Context
from protocol.host.keys import generate_keys, write_key_file
from protocol.keys import KeyPair
from protocol.tensors import TensorSet
from scripts.bench.bare_line import BareLine
from scripts.bench.figures import BenchResult, Measurements, Threshold, ratio
from scripts.bench.interleaving import interleave
from scripts.bench.job import BenchScope
from scripts.bench.light_peers import LightPeer, hello_of, layout_of, wait_until
from scripts.bench.processes import cpu_seconds
from scripts.bench.raw_socket import Duty, RawSocket
from scripts.bench.sheet import PartResult
from scripts.bench.watched import WatchedCoordinator
from scripts.run.forked import run_in_child

BAR = Threshold(must=0.8, goal=1.0, higher=True)
ENCRYPTED_BAR = Threshold(must=0.2, goal=0.5, higher=True)
"""One connection is encrypted by one thread at each end; docs/scale.md says what a byte costs."""
MEMBER = "north"
MORE_PASSES = 3
"""Passes for each requested one: a single transfer is short and varies."""
SETTLED_S = 0.1
"""A process that has used no processor time for this long counts as idle."""
WARM_UP = 2
"""A coordinator overwrites the file of the round before the last: the first two files are new and cost more."""


@dataclass(frozen=True, kw_only=True)
class TransferredModel:
    """A model whose updates are sent: its name in the table, how it is built, and how many transfers make a pass."""

    shown: str
    model: str
    shape: tuple[int, ...]
    classes: int
    repeats: int
    bar: Threshold | None

    def write_initial(self, path: Path) -> None:
        names = tuple(f"class {number}" for number in range(self.classes))
        spec, state = make_initial(self.model, input_shape=self.shape, classes=names, preprocessing=IMAGE_8BIT, seed=0)
        write_model(path, spec, state)


def lenet5(repeats: int) -> TransferredModel:
    """Return LeNet-5 as in the standard job."""
    return TransferredModel(shown="LeNet-5", model="lenet5", shape=(1, 28, 28), classes=11, repeats=repeats, bar=None)


def measure(scope: BenchScope) -> PartResult:
    """Measure AlexNet (57 million parameters) and LeNet-5, plain and encrypted."""
    small = lenet5(repeats=scope.sized(20, 2))
    large = TransferredModel(shown="AlexNet", model="alexnet", shape=(1, 64, 64), classes=3, repeats=1, bar=BAR)
    findings: list[BenchResult] = []
    series: list[Measurements] = []
    for freight in [small] if scope.quick else [large, small]:
        folder = scope.folder / freight.model
        folder.mkdir()
        initial = folder / "initial.safetensors"
        run_in_child(lambda freight=freight, initial=initial: freight.write_initial(initial))  # type: ignore[misc]
        found = _rates(freight, initial, folder, scope.sized(MORE_PASSES, 1) * scope.passes)
        findings += _findings(freight, found)
        series += found.values()
    return PartResult(part="wire", findings=tuple(findings), series=tuple(series))


def _findings(freight: TransferredModel, found: dict[str, Measurements]) -> list[BenchResult]:
    """Return the row with the bar first, then comparisons with sockets of the same duties."""
    raw, hashed, bare, plain, curve, filed, forced, beside, durable = found.values()
    update = f"{freight.shown} update"
    return [
        ratio(f"{update} up, CURVE off / raw TCP", plain, raw, freight.bar),
        ratio(f"{update} up, CURVE off / raw TCP with XXH3", plain, hashed),
        ratio(f"{update} up, CURVE off / raw TCP with XXH3 and a file", beside, filed),
        ratio(f"{update} judged and durable, CURVE off / raw TCP with XXH3, a file and fsync", durable, forced),
        ratio(f"{update}'s bytes, our sockets alone / raw TCP", bare, raw),
        ratio(f"{update} up, CURVE on / raw TCP", curve, raw, ENCRYPTED_BAR if freight.bar is not None else None),
    ]


def _rates(freight: TransferredModel, initial: Path, folder: Path, passes: int) -> dict[str, Measurements]:
    """Measure GB/s of the raw sockets, our sockets alone, the plain line and the encrypted one; then separately of what
    is compared with raw sockets with files, because their pending disk writes would disturb the others."""
    size = layout_of(initial).size_bytes("f32")
    with ExitStack() as stack:
        raws = [stack.enter_context(RawSocket(size, duty, folder / f"{duty.name}.bytes")) for duty in Duty]
        bare = BareLine(stack)
        lanes = [MeasuredLine(stack, initial, folder / name, keys=name == "curve") for name in ("plain", "curve")]
        bare.connect()
        for lane in lanes:
            lane.connect()
        payload = memoryview(b"\1" * size)

        def rate(send: Callable[[], float]) -> Callable[[], float]:
            def one_pass() -> float:
                for lane in lanes:
                    lane.settle()
                return freight.repeats * size / 1e9 / sum(send() for _ in range(freight.repeats))

            return one_pass

        lines = {
            f"{freight.shown} raw TCP": rate(lambda: raws[Duty.NONE].send(payload)),
            f"{freight.shown} raw TCP with XXH3": rate(lambda: raws[Duty.HASHED].send(payload)),
            f"{freight.shown} our sockets alone": rate(lambda: bare.send(payload)),
            f"{freight.shown} CURVE off": rate(lanes[0].send),
            f"{freight.shown} CURVE on": rate(lanes[1].send),
        }
        disks = {
            f"{freight.shown} raw TCP with XXH3 and a file": rate(lambda: raws[Duty.FILED].send(payload)),
            f"{freight.shown} raw TCP with XXH3, a file and fsync": rate(lambda: raws[Duty.FORCED].send(payload)),
            f"{freight.shown} CURVE off, beside files": rate(lanes[0].send),
            f"{freight.shown} CURVE off, judged and durable": rate(lanes[0].send_durably),
        }
        return interleave(lines, passes=passes, unit="GB/s", warm_up=WARM_UP) | interleave(
            disks, passes=passes, unit="GB/s", warm_up=1
        )


class MeasuredLine:
    """A coordinator in a separate process, and its only member in this one; connected later, as nothing forks after
    that."""

    def __init__(self, stack: ExitStack, initial: Path, folder: Path, *, keys: bool) -> None:
        folder.mkdir()
        self._stack, self._initial, self._folder = stack, initial, folder
        ours, theirs = generate_keys(), generate_keys()
        settings = _settings(initial, folder)
        if keys:
            settings |= _secured(folder, ours, theirs)
        self._coordinator = stack.enter_context(WatchedCoordinator(settings, folder / "coordinator.log"))
        self._keys = Keys(public=theirs.public, secret=theirs.secret, coordinator=ours.public) if keys else None
        self._layout = layout_of(initial)
        self._flat = np.zeros(self._layout.elements, dtype=np.float32)

    def connect(self) -> None:
        """Join and wait for the first order."""
        context = Context()
        self._stack.callback(context.term)
        address = Address(endpoint=self._coordinator.endpoint, keys=self._keys)
        hello = hello_of(self._initial, MEMBER)
        self._peer = self._stack.enter_context(LightPeer(context, address, hello, self._folder / "sent.jsonl"))
        self._await_order()

    def settle(self) -> None:
        """Wait until the coordinator is idle: it deletes files of the previous round when nobody waits for it, and in a
        real run there is training between two rounds."""
        pause, spent = threading.Event(), -1.0
        while (now := cpu_seconds(self._coordinator.pid)) > spent:
            spent = now
            pause.wait(SETTLED_S)

    def send(self) -> float:
        """Return seconds from having an update in memory until the coordinator holds all of it, verified; waits for the
        next order off the clock. Each update is new, because payloads are identified by their content."""
        return self._sent_until("UpdateArrived")

    def send_durably(self) -> float:
        """Return the same until the coordinator has inspected every value and synced them to disk."""
        return self._sent_until("UpdateArrived", "Inspected")

    def _sent_until(self, *moments: str) -> float:
        self._flat[0] += 1.0
        began = time.monotonic()
        self._peer.report(TensorSet.of_flat(self._layout, self._flat))
        self._await_order()
        return [self._coordinator.moment(name) for name in moments][-1] - began

    def _await_order(self) -> None:
        wait_until([self._peer], lambda: self._peer.order is not None)
        self._peer.put_away()


def _settings(initial: Path, folder: Path) -> dict[str, object]:
    """Return settings of FedAvg with one member: everything is sent, and the round waits for nobody else."""
    return {
        "run": "wire",
        "folder": str(folder / "run"),
        "initial": str(initial),
        "rounds": 100_000,
        "algorithm": {"name": "fedavg"},
        "members": {"names": [MEMBER], "at_least": 1},
        "pace": {"heartbeat_s": 60.0, "dead_after_s": 600.0},
    }


def _secured(folder: Path, ours: KeyPair, theirs: KeyPair) -> dict[str, object]:
    write_key_file(folder / "coordinator.key", ours)
    (folder / "members.txt").write_text(f"{MEMBER} {theirs.public}\n")
    return {
        "members": {"keys": str(folder / "members.txt"), "at_least": 1},
        "network": {"secret_key": str(folder / "coordinator.key")},
    }
