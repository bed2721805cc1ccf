"""Creates, writes and reads key files: a CURVE pair from the system's randomness, readable only by its owner.

`protocol.keys` defines the format of a key file. The coordinator decides whose keys are admitted.
"""

from __future__ import annotations

import os
from pathlib import Path

import zmq

from fedap_core.errors import InvalidInput
from protocol.errors import InvalidField
from protocol.keys import KeyPair, parse_pair


def generate_keys() -> KeyPair:
    """Generate a new pair."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public=public.decode(), secret=secret.decode())


def write_key_file(path: Path, pair: KeyPair) -> Path:
    """Write both halves, mode 0600, and next to them NAME.pub with the public half; return the path of NAME.pub. An
    existing file is never replaced: a key that others know would be lost."""
    if path.is_dir():
        raise InvalidInput("key file", path, "a file to write", "This is a folder.")
    public = path.with_suffix(".pub")
    if public == path:
        raise InvalidInput("key file", path, "another ending than .pub", "The public half is written to NAME.pub.")
    path.parent.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    try:
        for file, text, mode in ((path, pair.text, 0o600), (public, pair.public_text, 0o644)):
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            made.append(file)
            with os.fdopen(handle, "w") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(opened.fileno())
    except FileExistsError as error:
        _remove(made)
        raise InvalidInput("key file", file, "a file that does not exist yet", "Delete it first.") from error
    except OSError:  # a full disk: the same command must work once there is room
        _remove(made)
        raise
    return public


def _remove(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def read_key_file(path: Path, make: str = "Create one with keygen.") -> KeyPair:
    """Read both halves; refused if others than the owner may read the file. make: advice on how to get such a file."""
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("key file", path, "a readable file", make) from error
    if mode & 0o077:
        raise InvalidInput("key file", f"{path} of mode {mode & 0o777:04o}", "mode 0600", f"chmod 600 {path}")
    try:
        return parse_pair(text)
    except InvalidField as error:
        raise InvalidInput("key file", f"{path}: {error.got}", error.expected, make) from error
