"""Coordinators as processes under attack, what their memory says, and a listed member that means harm."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zmq

from protocol.codec import encode
from protocol.host.keys import generate_keys, write_key_file
from protocol.keys import KeyPair
from tests.support.federation import MEMBERS, WAIT_S, expected_rows, fields, require_rows, running
from tests.support.peer import ThreadedPeer
from tests.support.processes import ServeProcess, config_file
from tests.support.tiny_models import TinyModel, drift, moments, wire_moments

ROUNDS = 3


class AttackedCoordinator:
    """A coordinator's process that waits for its members, with or without keys."""

    def __init__(self, folder: Path, model: TinyModel, *, curve: bool, module: str, **more: object) -> None:
        self.model, self.log = model, folder / "log"
        self.keys: dict[str, KeyPair] = {}
        settings: dict[str, Any] = fields(
            folder / "run", model.write(folder / "i.safetensors"), algorithm="fedavg", rounds=ROUNDS, **more
        )
        if curve:
            self.keys = {name: generate_keys() for name in (*MEMBERS, "server")}
            write_key_file(folder / "c.key", self.keys["server"])
            (folder / "members").write_text("".join(f"{name} {self.keys[name].public}\n" for name in MEMBERS))
            settings["members"] = {"keys": str(folder / "members"), "at_least": len(MEMBERS)}
            settings["network"] = {"secret_key": str(folder / "c.key")}
        file = config_file(folder / "c.toml", settings)
        self.process = ServeProcess("serve", "--config", str(file), module=module, log=self.log)
        self.endpoint = self.process.ready()
        self.quiet_kib = self.memory_kib("VmRSS")

    def memory_kib(self, what: str) -> int:
        found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{self.process.child.pid}/status").read_text())
        return int(found[1]) if found else 0

    @property
    def has_ended(self) -> bool:
        return self.process.child.poll() is not None

    def keys_of(self, name: str) -> tuple[str, str, str] | None:
        if not self.keys:
            return None
        return self.keys["server"].public, self.keys[name].public, self.keys[name].secret

    def peers(self, endpoint: str | None = None) -> list[ThreadedPeer]:
        """All members, well-behaved, not started yet."""
        return [
            ThreadedPeer(
                endpoint or self.endpoint,
                self.model.hello(name),
                work=lambda round_no, weights, name=name: drift(name, round_no, weights),  # type: ignore[misc]
                moments=wire_moments(moments(name)),
                keys=self.keys_of(name),
            )
            for name in MEMBERS
        ]

    def finish(self) -> None:
        """Let the members come; the run must end as it does undisturbed, bit for bit."""
        peers = self.peers()
        with running(peers):
            assert all(peer.ended.wait(WAIT_S) for peer in peers), self.log.read_text()[-2000:]
            assert self.process.wait() == 0, self.log.read_text()[-2000:]
        require_rows(peers, expected_rows(self.model, "fedavg", rounds=ROUNDS))


@contextmanager
def staged(
    folder: Path, model: TinyModel, *, curve: bool = False, module: str = "coordinator.cli", **more: object
) -> Iterator[AttackedCoordinator]:
    stage = AttackedCoordinator(folder, model, curve=curve, module=module, **more)
    try:
        yield stage
    finally:
        stage.process.close()


def wait_for(condition: Callable[[], bool], what: str, seconds: float = WAIT_S) -> None:
    """Poll until it holds."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        pause.wait(0.02)


class HostileMember:
    """A member by its name or key that says hello and then a message as long as it likes: a real socket, which sends it
    only as a whole."""

    def __init__(self, stage: AttackedCoordinator, name: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.reconnect_ivl = -1
        keys = stage.keys_of(name)
        if keys is not None:
            server, public, secret = (key.encode() for key in keys)
            self._socket.curve_serverkey, self._socket.curve_publickey = server, public
            self._socket.curve_secretkey = secret
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._socket.connect(stage.endpoint)
        self._socket.send_multipart(encode(stage.model.hello(name)), copy=False)

    def wait_for_welcome(self) -> None:
        if not self._socket.poll(int(WAIT_S * 1000)):
            raise AssertionError("no welcome")

    def pour(self, frames: int) -> bool:
        """A message of so many frames of 64 KiB, all the same in memory; whether the connection was ended by it."""
        self.wait_for_welcome()
        body = bytes(65_536)
        for _ in range(frames):
            self._socket.send(body, zmq.SNDMORE, copy=False)
        self._socket.send(b"")
        return bool(self._monitor.poll(int(WAIT_S * 1000)))

    def close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()
        self._context.term()
