"""A claim about a network that delivers everything twice: one process stays one member, however often its connections
take the name from each other. A coordinator at work, real sockets, and a proxy that repeats every byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import zmq

from coordinator.decisions import facts
from coordinator.decisions.instances import TRADES
from protocol.codec import decode, encode
from protocol.messages import Hello, Reject, Welcome
from tests.support.federation import (
    MEMBERS,
    WAIT_S,
    RunningCoordinator,
    expected_rows,
    fields,
    member,
    require_rows,
    running,
)
from tests.support.proxy import Proxy, Twin
from tests.support.run_files import told_facts
from tests.support.tiny_models import tiny_model


def test_a_process_whose_hellos_arrive_twice_is_never_taken_for_a_copy_of_itself(tmp_path: Path) -> None:
    """Each hello comes over two connections and trades the name at least once; then the same process takes part."""
    model = tiny_model()
    coordinator = RunningCoordinator(
        fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg", rounds=1)
    )
    hello = replace(model.hello("a"), process="ab" * 16)
    with Proxy(coordinator.federation.endpoint, [Twin(after=1, newcomers=100)]) as proxy:
        say(proxy.endpoint, hello, times=2 * TRADES + 5)
    peers = [member(coordinator, model, name) for name in MEMBERS]
    peers[0].hello = hello
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    require_rows(peers, expected_rows(model, "fedavg", rounds=1))
    assert not [fact for fact in told_facts(tmp_path / "run") if isinstance(fact, facts.Contested)]


def say(endpoint: str, hello: Hello, *, times: int) -> None:
    """Say it as often, each time after the answer to the one before."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(endpoint)
        for number in range(times):
            socket.send_multipart(encode(hello))
            while True:
                assert socket.poll(int(WAIT_S * 1000)), f"no answer to hello {number}"
                answer = decode(socket.recv_multipart())
                assert not isinstance(answer, Reject), answer.reason
                if isinstance(answer, Welcome):
                    break
