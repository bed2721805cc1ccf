"""Reads and checks the list of members on disk. No sockets.

The list is a file with one line per member, name and public key, or a folder with one file NAME.pub per member. It may
be edited during a run: it is read again when it has changed, and an invalid edit leaves the list unchanged. An edit
that removes somebody counts once the files have been left alone for a moment, because a file that is written in place
is read half-written, too. `auth` decides who may connect to a socket.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from fedap_core.errors import InvalidInput
from protocol.errors import InvalidField
from protocol.keys import is_key, parse_public
from protocol.plan import PEER_NAME, PEER_NAME_IN_WORDS

SETTLED_S = 2.0
"""Seconds without another edit after which a list that lacks somebody counts."""

LOOK_SHARE = 0.05
"""Largest share of the time spent on looking whether the list has changed. Every message asks for its sender's name,
and a folder of a thousand files takes milliseconds to look at: one member could otherwise occupy the coordinator."""


def parse_members(text: str, *, source: str) -> Mapping[str, str]:
    """Map public keys to names, from lines «name key»; empty lines and lines that start with # are ignored."""
    names: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or not re.fullmatch(PEER_NAME, words[0]) or not is_key(words[1]):
            raise InvalidInput(f"{source} line {number}", line, "a name and a public key")
        name, key = words
        if key in names or name in names.values():
            raise InvalidInput(f"{source} line {number}", line, "every name and every key once")
        names[key] = name
    return names


def read_public_keys(folder: Path) -> Mapping[str, str]:
    """Map public keys to names, from the files NAME.pub of `keygen`; other files are ignored."""
    names: dict[str, str] = {}
    for file in sorted(folder.glob("*.pub")):
        if not re.fullmatch(PEER_NAME, file.stem):
            raise InvalidInput("members", file, f"NAME.pub, the name {PEER_NAME_IN_WORDS}")
        try:
            key = parse_public(file.read_text(encoding="utf-8"))
        except InvalidField as error:
            raise InvalidInput("members", f"{file}: {error.got}", error.expected) from error
        if key in names:
            raise InvalidInput("members", file, f"every key once; {names[key]}.pub has the same")
        names[key] = file.stem
    return names


class MemberList:
    """Who may take part, by public key. Used by the socket's thread and the authenticator's."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._mark: tuple[object, ...] = ()
        self._names: Mapping[str, str] = {}
        self._shorter: tuple[object, float] | None = None
        """The mark of a list that lacks somebody, and since when it has been there."""
        self._next_look_at = -math.inf
        self.fault = ""
        """What is wrong with the current file; empty if nothing. The list before the edit stays in use."""
        if not path.exists():
            expected = "an existing file with lines «name key», or a folder of files NAME.pub"
            raise InvalidInput("members file", path, expected)
        self._refresh()
        if self.fault:
            raise InvalidInput("members file", path, "lines «name key», or files NAME.pub", self.fault)

    def name_of(self, key: str) -> str | None:
        """Return the member's name, or None for a key that is not (or no longer) listed."""
        return self.names().get(key)

    def names(self) -> Mapping[str, str]:
        """Return the current map of public keys to names."""
        with self._lock:
            if (now := self._clock()) >= self._next_look_at:
                self._refresh()
                ended = self._clock()
                self._next_look_at = ended + (ended - now) / LOOK_SHARE
            return self._names

    def _refresh(self) -> None:
        try:
            mark = self._now()
            if mark != self._mark:
                if self._path.is_dir():
                    names = read_public_keys(self._path)
                elif self._path.is_file():
                    text = self._path.read_text(encoding="utf-8-sig")  # Windows editors begin a file with a mark
                    names = parse_members(text, source=self._path.name)
                else:  # reading a pipe or a device might never end
                    raise InvalidInput(str(self._path), "neither a file nor a folder", "a list of members")
                if not names and self._names:
                    found = "no file NAME.pub" if self._path.is_dir() else "no line «name key»"
                    raise InvalidInput(str(self._path), found, "a list; to end a run, stop it")
                if self._is_settled(names, mark):
                    self._names, self._mark, self._shorter = names, mark, None
            self.fault = ""
        except (OSError, UnicodeDecodeError, InvalidInput) as error:
            self.fault = str(error)

    def _is_settled(self, names: Mapping[str, str], mark: object) -> bool:
        """Whether this list may replace the one in use: at once if every name is still there, with whatever key."""
        if set(self._names.values()) <= set(names.values()):
            return True
        if self._shorter is None or self._shorter[0] != mark:
            self._shorter = mark, self._clock()
        return self._clock() >= self._shorter[1] + SETTLED_S

    def _now(self) -> tuple[object, ...]:
        """Return a value that changes with every edit."""
        if self._path.is_dir():
            with os.scandir(self._path) as files:
                found = sorted((file.name, file.stat()) for file in files if file.name.endswith(".pub"))
        else:
            found = [(self._path.name, self._path.stat())]
        return ("list", *((name, one.st_mtime_ns, one.st_size, one.st_ino) for name, one in found))
