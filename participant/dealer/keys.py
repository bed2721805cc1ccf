"""Key files: CURVE certificates as pyzmq writes them, one public half to hand out and one secret half of mode 0600.

A TOML file with `public` (and `secret`), and a public key as bare text, are understood too, so that a coordinator's key
can be given in whatever form it was sent. Who is admitted is the coordinator's to decide.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import zmq
import zmq.auth

from fedap_core.errors import InvalidInput

_Z85 = re.compile(r"[0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAKE = "Make one with `fedap-participant keygen`."


@dataclass(frozen=True, kw_only=True)
class Keys:
    """What a participant's end of an encrypted line needs; all in Z85. The secret never shows in a log."""

    public: str
    secret: str = field(repr=False)
    coordinator: str

    def __post_init__(self) -> None:
        for name, key in (("public key", self.public), ("coordinator's key", self.coordinator)):
            if not _Z85.fullmatch(key):
                raise InvalidInput(name, key, "40 characters of Z85")
        if not _Z85.fullmatch(self.secret):
            raise InvalidInput("secret key", "something else", "40 characters of Z85")


@dataclass(frozen=True, kw_only=True)
class NewKeys:
    """Where a fresh pair lies, and the half that others need."""

    public_file: Path
    secret_file: Path
    public: str


def make_keys(folder: Path, name: str) -> NewKeys:
    """Write NAME.key and NAME.key_secret (mode 0600); an existing pair is never replaced."""
    if not _NAME.fullmatch(name):
        raise InvalidInput("name", name, "1 to 64 letters, digits, dots, _ and -, beginning with a letter or digit")
    public_file, secret_file = folder / f"{name}.key", folder / f"{name}.key_secret"
    for path in (public_file, secret_file):
        if path.exists():
            raise InvalidInput("key file", path, "a file that does not exist yet", "Delete it first.")
    folder.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o077)  # the secret half must not be readable even for the moment before a chmod
    try:
        zmq.auth.create_certificates(folder, name)
    finally:
        os.umask(before)
    public_file.chmod(0o644)
    secret_file.chmod(0o600)
    return NewKeys(public_file=public_file, secret_file=secret_file, public=_load(secret_file)[0])


def read_keys(secret_file: Path, coordinator: str) -> Keys:
    """One's own pair, and the coordinator's public key: bare text, or a file that holds it."""
    try:
        mode = secret_file.stat().st_mode
    except OSError as error:
        raise InvalidInput("key file", secret_file, "a readable file", _MAKE) from error
    if stat.S_IMODE(mode) & 0o077:
        got = f"{secret_file} of mode {stat.S_IMODE(mode):04o}"
        raise InvalidInput("key file", got, "mode 0600", f"chmod 600 {secret_file}")
    public, secret = _load(secret_file)
    if not secret:
        raise InvalidInput("key file", secret_file, "a file with a secret key", f"{secret_file}_secret?")
    text = coordinator.strip()
    theirs = text if _Z85.fullmatch(text) else _load(Path(text))[0]
    return Keys(public=public, secret=secret, coordinator=theirs)


def _load(path: Path) -> tuple[str, str]:
    """Public and (perhaps empty) secret half of a key file of either form."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("key file", path, "a readable key file, or a key of 40 characters", _MAKE) from error
    if _Z85.fullmatch(text.strip()):
        return text.strip(), ""
    if "curve" in text and "public-key" in text:
        public, secret = zmq.auth.load_certificate(path)
        return public.decode(), (secret or b"").decode()
    try:
        found = tomllib.loads(text)
        return str(found["public"]), str(found.get("secret", ""))
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise InvalidInput("key file", path, "a CURVE certificate or TOML with `public`", _MAKE) from error
