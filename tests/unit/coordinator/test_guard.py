"""A member's message that never ends, or is too large when it does, costs it its connection, however busy the machine
is. Real sockets."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordinator.wire.router import IO_NICENESS, Router
from protocol.backlog import STRANGER_PACKET_BYTES, BacklogLimits
from protocol.host.tcp import cut, drop_packets
from protocol.limits import KIB, MIB
from scripts.drill.hostile.floods import ATTACKS, Attackers
from scripts.drill.hostile.zmtp import RawPeer, frame, message
from tests.support.hostility import wait_for

BOUNDS = BacklogLimits(strangers=8, message_bytes=64 * KIB)
TRIES = 4
"""The guard's thread is slow to wake up in about every second one."""


@contextmanager
def watching(bounds: BacklogLimits = BOUNDS) -> Iterator[Router]:
    router = Router(endpoint="tcp://127.0.0.1:*", admits=lambda _: True, bounds=bounds)
    try:
        yield router
    finally:
        router.close(linger_s=0)


def welcomed(router: Router) -> RawPeer:
    """Somebody who has said a word and is trusted by it."""
    peer = RawPeer.connected(router.endpoint)
    peer.handshake()
    peer.send(message([b"hello"]))
    heard: list[str] = []

    def has_heard() -> bool:
        router.wait(0.1)
        heard.extend(received.connection for received in router.received(8))
        return bool(heard)

    wait_for(has_heard, "the first word")
    router.trust(heard[0])
    return peer


def threads() -> dict[int, str]:
    """The threads of this process, with the names that libraries gave them."""
    found: dict[int, str] = {}
    for one in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            found[int(one.name)] = (one / "comm").read_text(encoding="utf-8").strip()
    return found


def test_on_a_busy_machine_the_library_reads_after_the_thread_that_can_stop_it() -> None:
    """Threads of the library name themselves when they begin to run."""
    before = threads()
    with watching() as router:
        ours = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        expected = {"ZMQbg/IO/0": min(ours + IO_NICENESS, 19), "ZMQbg/Reaper": min(ours + IO_NICENESS, 19)}

        def priorities() -> dict[str, int]:
            started = {thread: name for thread, name in threads().items() if thread not in before}
            return {name: os.getpriority(os.PRIO_PROCESS, thread) for thread, name in started.items()}

        wait_for(lambda: expected.keys() <= priorities().keys(), "the library's threads to begin")
        assert {name: nice for name, nice in priorities().items() if name in expected} == expected
        assert router._guard is not None
        guard = router._guard._thread.native_id
        assert guard is not None
        assert os.getpriority(os.PRIO_PROCESS, guard) == ours


def require_cut(router: Router) -> None:
    def is_cut() -> bool:
        router.wait(0.05)
        list(router.received(8))
        return router.cut_connections == 1

    wait_for(is_cut, "the guard to cut", seconds=20)


def pour(peer: RawPeer, *, most_bytes: int) -> int:
    """Frames of one message without end; how much got out before somebody ended it."""
    batch, sent = frame(bytes(64 * KIB), more=True), 0
    with suppress(OSError):
        while sent < most_bytes:
            peer.send(batch)
            sent += len(batch)
    return sent


@contextmanager
def slow_guard() -> Iterator[None]:
    """The guard's thread runs only when nothing else wants its processor, and something always does."""
    thread = next(one.native_id for one in threading.enumerate() if one.name == "guard")
    assert thread is not None
    processor = min(os.sched_getaffinity(0))
    endless = f"import os\nos.sched_setaffinity(0, {{{processor}}})\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", endless], stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        os.sched_setaffinity(thread, {processor})
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        try:
            yield
        finally:
            busy.kill()
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(thread, os.sched_getaffinity(0))


@pytest.mark.skipif(sys.platform != "linux", reason="there is a guard on Linux alone")
def test_a_guard_that_missed_an_arrival_checks_it_nevertheless() -> None:
    for _ in range(TRIES):
        with watching() as router:
            with slow_guard():
                peer = welcomed(router)
            with closing(peer):
                sender = threading.Thread(target=pour, args=(peer,), kwargs={"most_bytes": 256 * MIB})
                sender.start()
                require_cut(router)
                sender.join()


@pytest.mark.skipif(sys.platform != "linux", reason="there is a guard on Linux alone")
def test_a_message_that_was_too_large_and_whole_before_the_guard_looked_costs_its_sender_the_connection() -> None:
    with watching() as router, closing(welcomed(router)) as peer:
        peer.send(message([bytes(2 * BOUNDS.message_bytes)]))
        require_cut(router)


@pytest.mark.skipif(sys.platform != "linux", reason="there is a guard on Linux alone")
def test_large_packets_of_strangers_never_arrive_and_those_of_members_do() -> None:
    """Dropped by the kernel: no thread of the guard has to be quick enough."""
    large = message([bytes(4 * STRANGER_PACKET_BYTES)])
    with watching() as router, closing(welcomed(router)) as peer:
        with closing(RawPeer.connected(router.endpoint)) as stranger:
            stranger.handshake()
            stranger.send(large)
            require_cut(router)
        assert list(router.received(8)) == []
        peer.send(large)
        wait_for(lambda: router.unread_members() == 1, "the member's message")
        assert len(list(router.received(8))) == 1


@pytest.mark.parametrize(
    "greeting", [b"\x01\x00", b"\xff" + bytes(8) + b"\x7f\x01\x05\x00\x00"], ids=["version 1", "version 2"]
)
def test_peers_of_old_protocol_versions_are_refused(greeting: bytes) -> None:
    """The library would abort the process if such a peer connected while the socket is being closed."""
    with watching() as router, closing(RawPeer.connected(router.endpoint)) as peer:
        peer.send(greeting)
        assert _has_ended(peer.socket)


@pytest.mark.skipif(sys.platform != "linux", reason="there is a guard on Linux alone")
def test_while_new_connections_are_held_off_members_are_listened_to_and_what_strangers_left_is_thrown_away() -> None:
    """Each stranger that goes is counted with at least 48 KiB, and nobody reads what it said."""
    with (
        capture_logs() as lines,
        watching(BacklogLimits(strangers=100)) as router,
        closing(welcomed(router)) as member,
        Attackers(ATTACKS["reconnecting"], router.endpoint, seed=5, threads=4),
    ):
        wait_for(lambda: any(line["event"] == "connections.paused" for line in lines), "connections to be held off")
        member.send(message([b"from a member"]))
        heard: list[bytes] = []

        def has_heard() -> bool:
            router.wait(0.1)
            heard.extend(bytes(received.frames[0]) for received in router.received(256))
            return b"from a member" in heard

        wait_for(has_heard, "the member's message")
        assert heard == [b"from a member"]


@pytest.mark.skipif(sys.platform != "linux", reason="there is a guard on Linux alone")
def test_who_is_cut_while_it_is_held_is_told() -> None:
    """What it acknowledges was dropped, so that what it is sent is slowed down more and more, its end with it: it must
    not have to wait for that."""
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as listener,
        closing(socket.create_connection(listener.getsockname())) as peer,
        closing(listener.accept()[0]) as ours,
    ):
        drop_packets(ours, drop=True)
        ours.send(b"a word that seems to get lost")
        wait_for(lambda: _repeats(ours) >= 3, "TCP to have repeated it")
        cut(ours)
        peer.sendall(b"a word that is refused")
        assert _has_ended(peer)


def _has_ended(peer: socket.socket) -> bool:
    """Whether the end comes, after what came before it; False when nothing comes any more."""
    peer.settimeout(20)
    try:
        while peer.recv(1024):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
    return True


def _repeats(connection: socket.socket) -> int:
    """`tcpi_total_retrans` of Linux's `struct tcp_info`."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int(struct.unpack_from("=I", info, 100)[0])


def test_members_with_unread_messages_are_counted_unless_a_stranger_is_connected() -> None:
    """The socket's thread rests as long as few members have sent something, and nobody else can be waiting."""
    with watching() as router, closing(welcomed(router)) as first, closing(welcomed(router)):
        wait_for(lambda: router.unread_members() == 0, "two members that wait")
        first.send(message([bytes(4 * KIB)]))
        wait_for(lambda: router.unread_members() == 1, "the guard to see a message")
        with closing(RawPeer.connected(router.endpoint)):
            wait_for(lambda: router.unread_members() is None, "the guard to see a stranger")
        wait_for(lambda: router.unread_members() == 1, "the stranger to be gone")
        assert len(list(router.received(8))) == 1
        wait_for(lambda: router.unread_members() == 0, "nothing to be left")
