"""Creates, writes and reads key files: a CURVE pair from the system's randomness, readable only by its owner.

`protocol.keys` defines the format of a key file. The coordinator decides whose keys are admitted.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import zmq

from fedap_core.errors import InvalidInput
from protocol.errors import InvalidField
from protocol.host.new_files import write_new
from protocol.host.small_files import read_small_text
from protocol.keys import KeyPair, parse_pair


def generate_keys() -> KeyPair:
    """Generate a new pair."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public=public.decode(), secret=secret.decode())


def make_key_file(path: Path) -> tuple[KeyPair, Path]:
    """Generate a pair and write it like `write_key_file`. If an earlier call was killed after the first file, write the
    missing second one, so that the same command can be repeated."""
    public = _public_file(path)
    if path.is_file() and not public.exists():
        with contextlib.suppress(InvalidInput):  # another file: refused below
            pair = read_key_file(path)
            write_new(public, pair.public_text, mode=0o644)
            return pair, public
    pair = generate_keys()
    return pair, write_key_file(path, pair)


def write_key_file(path: Path, pair: KeyPair) -> Path:
    """Write both halves, mode 0600, and next to them NAME.pub with the public half; return the path of NAME.pub. An
    existing file is never replaced: a key that others know would be lost."""
    public = _public_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for file in (path, public):
        if file.exists():
            raise InvalidInput("key file", file, "a file that does not exist yet", "Delete it first.")
    write_new(path, pair.text, mode=0o600)
    write_new(public, pair.public_text, mode=0o644)
    return public


def _public_file(path: Path) -> Path:
    if path.is_dir():
        raise InvalidInput("key file", path, "a file to write", "This is a folder.")
    public = path.with_suffix(".pub")
    if public == path:
        raise InvalidInput("key file", path, "another ending than .pub", "The public half is written to NAME.pub.")
    return public


def read_key_file(path: Path, make: str = "Create one with keygen.") -> KeyPair:
    """Read both halves; refused if others than the owner may read the file. make: advice on how to get such a file."""
    try:
        mode, text = path.stat().st_mode, read_small_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("key file", path, "a readable file", make) from error
    if mode & 0o077:
        raise InvalidInput("key file", f"{path} of mode {mode & 0o777:04o}", "mode 0600", f"chmod 600 {path}")
    try:
        return parse_pair(text)
    except InvalidField as error:
        raise InvalidInput("key file", f"{path}: {error.got}", error.expected, make) from error
