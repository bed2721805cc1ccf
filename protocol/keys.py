"""A pair of CURVE keys as text: the format of key files, for coordinators and participants alike.

TOML with `public` and `secret`, each 40 characters of Z85, the form in which ZeroMQ prints keys. A file without the
secret half is a public one. The packages that store key files decide where they are and who may read them.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field

from protocol.errors import InvalidField

KEY_CHARS = 40
"""Length of a key of 32 bytes in Z85."""

_KEY = re.compile(r"[0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")


def is_key(text: str) -> bool:
    """Whether the text has the form of a key."""
    return _KEY.fullmatch(text) is not None


@dataclass(frozen=True, kw_only=True)
class KeyPair:
    """Two halves in Z85; the secret one never appears in a log or an error."""

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not is_key(self.public):
            raise InvalidField("public key", self.public, f"{KEY_CHARS} characters of Z85, as keygen prints them")
        if not is_key(self.secret):
            raise InvalidField("secret key", "something else", f"{KEY_CHARS} characters of Z85")

    @property
    def text(self) -> str:
        """The content of the key file; Z85 has no quotes and no backslashes."""
        return f'{self.public_text}secret = "{self.secret}"\n'

    @property
    def public_text(self) -> str:
        """The content of the public file, which is given to others."""
        return f'public = "{self.public}"\n'


def parse_pair(text: str) -> KeyPair:
    """Parse both halves of a key file; InvalidField if it is not one."""
    halves = _halves(text)
    if "secret" not in halves:
        raise InvalidField("key file", "no secret key", "TOML with public and secret")
    return KeyPair(public=halves["public"], secret=halves["secret"])


def parse_public(text: str) -> str:
    """Parse the public half, from a key file with or without the secret, or from the bare key."""
    bare = text.strip()
    if is_key(bare):
        return bare
    public = _halves(text)["public"]
    if not is_key(public):
        raise InvalidField("public key", public, f"{KEY_CHARS} characters of Z85, as keygen prints them")
    return public


def _halves(text: str) -> dict[str, str]:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidField("key file", "something else", "TOML with public and secret") from error
    halves = {name: value for name, value in found.items() if isinstance(value, str)}
    if "public" not in halves:
        raise InvalidField("key file", "no public key", "TOML with public and secret")
    return halves
