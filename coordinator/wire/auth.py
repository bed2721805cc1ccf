"""Decides who may connect to the socket: CURVE keys and the ZAP authenticator, which runs in its own thread.

A connection whose key is not admitted fails in its handshake, so none of its messages is ever parsed. An admitted
connection has its verified public key as User-Id. What a member may do afterwards is not decided here.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import structlog
import zmq
from zmq.utils import z85

from protocol.keys import KeyPair

log = structlog.get_logger()

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
ZAP_DOMAIN = b"fedap"
_STOP_ENDPOINT = "inproc://fedap.zap.stop"


def secure(socket: zmq.Socket[bytes], pair: KeyPair) -> None:
    """Make a socket require CURVE; call before binding, with an Authenticator running."""
    socket.zap_domain = ZAP_DOMAIN
    socket.curve_server = True
    socket.curve_publickey = pair.public.encode()
    socket.curve_secretkey = pair.secret.encode()


class Authenticator:
    """Answers ZAP requests of one context: decides on CURVE keys by `admits(key in Z85)` and refuses everything
    else."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], admits: Callable[[str], bool]) -> None:
        self._admits = admits
        self.refused = 0
        """Handshakes refused so far."""
        self._accepted: Counter[str] = Counter()
        self._accepted_in_all = 0
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(ZAP_ENDPOINT)
        self._stopping = context.socket(zmq.PAIR)
        self._stopping.bind(_STOP_ENDPOINT)
        self._stopper = context.socket(zmq.PAIR)
        self._stopper.connect(_STOP_ENDPOINT)
        self._thread = threading.Thread(target=self._serve, name="zap", daemon=True)
        self._thread.start()

    def accepted_from(self, address: str) -> int:
        """Return how many handshakes of an address were accepted; of all addresses for an empty one. Thread-safe."""
        return self._accepted[address] if address else self._accepted_in_all

    def close(self) -> None:
        """Stop answering; existing connections stay open."""
        self._stopper.send(b"")
        self._thread.join()
        self._stopper.close(linger=0)

    def _serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._stopping, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._stopping in ready:
                break
            self._socket.send_multipart(self._answer(self._socket.recv_multipart()))
        self._socket.close()
        self._stopping.close(linger=0)

    def _answer(self, request: list[bytes]) -> list[bytes]:
        """Answer a request of RFC 27: version, request id, domain, address, identity, mechanism, credentials."""
        if len(request) < 6 or request[0] != b"1.0":
            return [b"1.0", request[1] if len(request) > 1 else b"", b"500", b"not understood", b"", b""]
        _, request_id, _, address, _, mechanism, *credentials = request
        key = z85.encode(credentials[0]).decode() if mechanism == b"CURVE" and len(credentials) == 1 else ""
        shown = address.decode(errors="replace")
        if key and self._admits(key):
            self._accepted[shown] += 1
            self._accepted_in_all += 1
            return [b"1.0", request_id, b"200", b"OK", key.encode(), b""]
        self.refused += 1
        log.warning("key.refused", key=key or mechanism.decode(errors="replace"), address=shown)
        return [b"1.0", request_id, b"400", b"unknown key", b"", b""]
