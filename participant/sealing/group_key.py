"""The members' common key: 32 random bytes in a file that only its owner can read, identified by a fingerprint.

One member creates it and gives it to the others over a separate channel; the coordinator must never have it. `updates`
and `boxes` derive their keys from it.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedap_core.errors import InvalidInput
from protocol.host.new_files import write_new
from protocol.host.small_files import read_small_text

KEY_BYTES = 32
_HOW = "Create one with `fedap-participant group-key`, or ask the member that created it."


@dataclass(frozen=True, kw_only=True)
class GroupKey:
    """The key itself, which never appears in a log, and its public fingerprint."""

    secret: bytes = field(repr=False)

    def derive(self, *purpose: str, length: int = KEY_BYTES) -> bytes:
        """Derive bytes for one purpose only. purpose: words without NUL, from general to specific."""
        if any("\0" in word for word in purpose):
            raise InvalidInput("purpose", purpose, "words without NUL")
        info = "\0".join(("fedap sealed 1", *purpose)).encode()
        return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(self.secret)

    @property
    def fingerprint(self) -> str:
        """32 hex digits that identify the key and reveal nothing else about it."""
        return self.derive("fingerprint", length=16).hex()


def make_group_key(path: Path) -> GroupKey:
    """Write a new key with mode 0600; an existing file is never replaced."""
    key = GroupKey(secret=secrets.token_bytes(KEY_BYTES))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_new(path, key.secret.hex() + "\n", mode=0o600)
    except FileExistsError as error:
        raise InvalidInput("out", path, "a file that does not exist yet", "Delete it first.") from error
    return key


def read_group_key(path: Path) -> GroupKey:
    """Read the key from a file; refuse a file that anyone but its owner may read."""
    try:
        mode, text = path.stat().st_mode, read_small_text(path, encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("group_key", path, "a readable file", _HOW) from error
    if mode & 0o077:
        raise InvalidInput("group_key", f"{path} of mode {mode & 0o777:04o}", "mode 0600", f"chmod 600 {path}")
    if not re.fullmatch(rf"[0-9a-f]{{{2 * KEY_BYTES}}}", text):
        raise InvalidInput("group_key", path, f"a file with {2 * KEY_BYTES} hex digits", _HOW)
    return GroupKey(secret=bytes.fromhex(text))
