"""A participant's key file, and the coordinator's public key in whatever form it was sent. Who is admitted is decided
by the coordinator.

The text of a key file is `protocol.keys`'; it is readable by its owner alone.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from fedap_core.errors import InvalidInput
from protocol.errors import InvalidField
from protocol.keys import KeyPair, is_key, parse_pair, parse_public

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAKE = "Make one with `fedap-participant keygen`."


@dataclass(frozen=True, kw_only=True)
class Keys:
    """What a participant's end of an encrypted line needs; all in Z85. The secret never shows in a log."""

    public: str
    secret: str = field(repr=False)
    coordinator: str


@dataclass(frozen=True, kw_only=True)
class NewKeys:
    """Where a fresh pair lies, and the half that others need."""

    secret_file: Path
    public: str


def make_keys(folder: Path, name: str) -> NewKeys:
    """Write NAME.key, mode 0600; an existing one is never replaced."""
    if not _NAME.fullmatch(name):
        raise InvalidInput("name", name, "1 to 64 letters, digits, dots, _ and -, beginning with a letter or digit")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.key"
    public, secret = zmq.curve_keypair()
    pair = KeyPair(public=public.decode(), secret=secret.decode())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise InvalidInput("key file", path, "a file that does not exist yet", "Delete it first.") from error
    with os.fdopen(handle, "w") as file:
        file.write(pair.text)
    return NewKeys(secret_file=path, public=pair.public)


def read_keys(secret_file: Path, coordinator: str) -> Keys:
    """One's own pair, and the coordinator's public key: bare text, or a file that holds it."""
    try:
        mode, text = secret_file.stat().st_mode, secret_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("key file", secret_file, "a readable file", _MAKE) from error
    if stat.S_IMODE(mode) & 0o077:
        got = f"{secret_file} of mode {stat.S_IMODE(mode):04o}"
        raise InvalidInput("key file", got, "mode 0600", f"chmod 600 {secret_file}")
    try:
        pair = parse_pair(text)
    except InvalidField as error:
        raise InvalidInput("key file", f"{secret_file}: {error.got}", error.expected, _MAKE) from error
    return Keys(public=pair.public, secret=pair.secret, coordinator=_public_key(coordinator.strip()))


def _public_key(given: str) -> str:
    if is_key(given):
        return given
    try:
        return parse_public(Path(given).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        expected = "the coordinator's public key of 40 characters, or a file that holds it"
        raise InvalidInput("coordinator-key", given, expected) from error
    except InvalidField as error:
        raise InvalidInput("coordinator-key", f"{given}: {error.got}", error.expected) from error
