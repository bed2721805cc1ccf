"""Claims about keys: files only the owner can read, a list that follows its file, and strangers who get nowhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from coordinator.record.member_list import LOOK_SHARE, SETTLED_S, MemberList, parse_members
from coordinator.wire.auth import Authenticator, secure
from fedap_core.errors import InvalidInput
from protocol.host.keys import generate_keys, read_key_file, write_key_file
from protocol.keys import KeyPair
from tests.support.disks import fill, small_disk


class Clock:
    """Moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


WAIT_MS = 10_000
"""Longest wait for something that must happen; far above what it takes."""


def test_keys_are_written_for_the_owner_alone_and_read_back(tmp_path: Path) -> None:
    pair = generate_keys()
    write_key_file(tmp_path / "keys" / "c.key", pair)
    assert (tmp_path / "keys" / "c.key").stat().st_mode & 0o777 == 0o600
    assert read_key_file(tmp_path / "keys" / "c.key") == pair


def test_members_may_be_a_folder_of_public_keys_which_is_followed(tmp_path: Path) -> None:
    pairs = {name: generate_keys() for name in ("north", "south.1")}
    for name, pair in pairs.items():
        (tmp_path / f"{name}.pub").write_text(pair.public_text)
    (tmp_path / "README").write_text("not a key")
    clock = Clock()
    listed = MemberList(tmp_path, clock)
    assert listed.names() == {pair.public: name for name, pair in pairs.items()}
    (tmp_path / "south.1.pub").unlink()
    assert listed.name_of(pairs["south.1"].public) == "south.1"
    clock.now += SETTLED_S
    assert listed.name_of(pairs["south.1"].public) is None
    (tmp_path / "east.pub").write_text("no key")
    assert listed.name_of(pairs["north"].public) == "north"
    assert "east.pub" in listed.fault
    (tmp_path / "east.pub").write_text(pairs["north"].public_text)
    assert listed.names() == {pairs["north"].public: "north"}
    assert "every key once" in listed.fault


def test_an_existing_key_file_is_never_replaced(tmp_path: Path) -> None:
    first = generate_keys()
    write_key_file(tmp_path / "c.key", first)
    with pytest.raises(InvalidInput, match="does not exist yet"):
        write_key_file(tmp_path / "c.key", generate_keys())
    assert read_key_file(tmp_path / "c.key") == first


def test_a_key_that_a_full_disk_cuts_off_leaves_nothing_so_that_the_same_command_works_later(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        ballast = fill(disk, leave=0)
        with pytest.raises(OSError, match="No space left"):
            write_key_file(disk / "c.key", generate_keys())
        assert list(disk.iterdir()) == [ballast]
        ballast.unlink()
        assert write_key_file(disk / "c.key", generate_keys()).is_file()


def test_a_key_file_that_others_may_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    write_key_file(tmp_path / "c.key", generate_keys())
    (tmp_path / "c.key").chmod(0o640)
    with pytest.raises(InvalidInput, match=r"mode 0640, expected mode 0600\. chmod 600"):
        read_key_file(tmp_path / "c.key")


@pytest.mark.parametrize("text", ["", "public = 1", 'public = "x"\nsecret = "y"', "\x00"])
def test_a_broken_key_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.key").write_text(text)
    (tmp_path / "c.key").chmod(0o600)
    with pytest.raises(InvalidInput):
        read_key_file(tmp_path / "c.key")


def test_members_are_lines_of_name_and_key() -> None:
    key, other = generate_keys().public, generate_keys().public
    text = f"# hospitals\n\nalpha {key}\nbeta.2   {other}\n"
    assert parse_members(text, source="members") == {key: "alpha", other: "beta.2"}


@pytest.mark.parametrize(
    "line", ["alpha", "alpha short-key", "alpha {key} more", "-x {key}", "beta {key}", "one {new}"]
)
def test_a_line_that_is_no_new_member_is_refused_by_its_number(line: str) -> None:
    key, new = generate_keys().public, generate_keys().public
    with pytest.raises(InvalidInput, match="members line 2"):
        parse_members(f"one {key}\n{line.format(key=key, new=new)}", source="members")


def test_a_list_that_is_written_in_place_line_by_line_removes_nobody_on_the_way(tmp_path: Path) -> None:
    """Somebody else's line comes first, and takes longer than anybody waits for a whole list that stays."""
    keys = {name: generate_keys().public for name in ("a", "b", "c")}
    path, clock = tmp_path / "members", Clock()
    path.write_text("".join(f"{name} {key}\n" for name, key in keys.items()))
    members = MemberList(path, clock)
    with path.open("w") as file:
        for name, key in (("d", generate_keys().public), *keys.items()):
            file.write(f"{name} {key}\n")
            file.flush()
            assert set(keys.values()) <= set(members.names())
            clock.now += 0.9 * SETTLED_S
    assert sorted(members.names().values()) == ["a", "b", "c", "d"]
    path.write_text(f"a {keys['a']}\n")
    assert len(members.names()) == 4
    clock.now += SETTLED_S
    assert members.names() == {keys["a"]: "a"}


def test_a_list_by_a_windows_editor_is_read_and_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    key, path = generate_keys().public, tmp_path / "members"
    path.write_bytes(f"a {key}\r\n".encode("utf-8-sig"))
    members = MemberList(path, Clock())
    assert members.names() == {key: "a"}
    path.unlink()
    os.mkfifo(path)
    assert members.names() == {key: "a"}
    assert "neither a file nor a folder" in members.fault


def test_the_list_follows_its_file_and_survives_a_broken_edit(tmp_path: Path) -> None:
    first, second = generate_keys().public, generate_keys().public
    path = tmp_path / "members"
    path.write_text(f"a {first}\n")
    clock = Clock()
    members = MemberList(path, clock)
    assert (members.name_of(first), members.name_of(second)) == ("a", None)
    path.write_text(f"b {second}\n# longer\n")
    members.names()
    clock.now += SETTLED_S
    assert (members.name_of(first), members.name_of(second)) == (None, "b")
    path.write_text("b nonsense, and much longer than before so that it is seen as changed\n")
    assert members.name_of(second) == "b"
    assert "line 1" in members.fault
    path.unlink()
    assert members.name_of(second) == "b"


class SlowClock:
    """Each time that it is read, a second has passed: looking at a list takes one."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_a_list_that_takes_long_to_look_at_is_looked_at_a_small_share_of_the_time(tmp_path: Path) -> None:
    """A look takes 1 s of 21, and an edit is seen by the next one, whatever is asked in between: every message is."""
    first, second = generate_keys().public, generate_keys().public
    (tmp_path / "a.pub").write_text(first)
    clock = SlowClock()
    members = MemberList(tmp_path, clock)
    members.names()
    (tmp_path / "b.pub").write_text(second)
    asked = 0
    while members.name_of(second) is None:
        asked += 1
    assert asked == 1 / LOOK_SHARE - 1
    assert members.name_of(first) == "a"


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made = zmq.Context()
    yield made
    made.destroy(linger=0)


def dealer(context: zmq.Context[zmq.Socket[bytes]], server: str, own: KeyPair) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.curve_serverkey = server.encode()
    socket.curve_publickey = own.public.encode()
    socket.curve_secretkey = own.secret.encode()
    return socket


def test_only_admitted_keys_get_through_and_bring_their_true_identity(
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    """The stranger's handshake is over (refused == 1) before the member speaks, and only the member's message comes."""
    server, member, stranger = generate_keys(), generate_keys(), generate_keys()
    authenticator = Authenticator(context, lambda key: key == member.public)
    router = context.socket(zmq.ROUTER)
    secure(router, server)
    router.bind("tcp://127.0.0.1:*")
    endpoint = router.getsockopt_string(zmq.LAST_ENDPOINT)
    refused = dealer(context, server.public, stranger)
    monitor = refused.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
    refused.connect(endpoint)
    with contextlib.suppress(zmq.Again):  # refused already, and nobody left to send to
        refused.send(b"let me in", zmq.NOBLOCK)
    assert monitor.poll(WAIT_MS), "the stranger's handshake should have been refused"
    assert authenticator.refused >= 1
    admitted = dealer(context, server.public, member)
    admitted.connect(endpoint)
    admitted.send(b"hello")
    assert router.poll(WAIT_MS)
    frames = router.recv_multipart(copy=False)
    assert (bytes(frames[1].buffer), frames[1].get("User-Id")) == (b"hello", member.public)
    assert not router.poll(0)
    refused.disable_monitor()
    for socket in (monitor, refused, admitted, router):
        socket.close(linger=0)
    authenticator.close()


def test_a_peer_without_keys_is_ignored(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    authenticator = Authenticator(context, lambda _key: True)
    router = context.socket(zmq.ROUTER)
    secure(router, generate_keys())
    router.bind("tcp://127.0.0.1:*")
    plain = context.socket(zmq.DEALER)
    plain.linger = 0
    monitor = plain.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_DISCONNECTED)
    plain.connect(router.getsockopt_string(zmq.LAST_ENDPOINT))
    with contextlib.suppress(zmq.Again):  # cut already
        plain.send(b"hello", zmq.NOBLOCK)
    assert monitor.poll(WAIT_MS), "the connection without keys should have been cut"
    assert not router.poll(0)
    plain.disable_monitor()
    for socket in (monitor, plain, router):
        socket.close(linger=0)
    authenticator.close()


def test_new_keys_are_new() -> None:
    assert len({os.fsencode(generate_keys().secret) for _ in range(10)}) == 10
