"""A pair of CURVE keys as text: the one format of key files, for coordinators and participants alike.

TOML with `public` and `secret`, each the 40 characters of Z85 in which ZeroMQ itself shows a key. A file without the
secret half is the public one. The packages that store key files decide where they are and who may read them.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field

from protocol.errors import InvalidField

KEY_CHARS = 40
"""A key of 32 bytes in Z85."""

_KEY = re.compile(r"[0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")


def is_key(text: str) -> bool:
    """Whether this can be a key."""
    return _KEY.fullmatch(text) is not None


@dataclass(frozen=True, kw_only=True)
class KeyPair:
    """Two halves in Z85; the secret one never shows in a log or an error."""

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not is_key(self.public):
            raise InvalidField("public key", self.public, f"{KEY_CHARS} characters of Z85, as keygen prints them")
        if not is_key(self.secret):
            raise InvalidField("secret key", "something else", f"{KEY_CHARS} characters of Z85")

    @property
    def text(self) -> str:
        """As a key file holds it; Z85 has no quotes and no backslashes."""
        return f'{self.public_text}secret = "{self.secret}"\n'

    @property
    def public_text(self) -> str:
        """As a file for others holds it."""
        return f'public = "{self.public}"\n'


def parse_pair(text: str) -> KeyPair:
    """Both halves of a key file; InvalidField if it is none."""
    halves = _halves(text)
    if "secret" not in halves:
        raise InvalidField("key file", "no secret key", "TOML with public and secret")
    return KeyPair(public=halves["public"], secret=halves["secret"])


def parse_public(text: str) -> str:
    """The public half: of a key file, of one whose secret was taken out, or bare."""
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
