"""Read and write a participant's key file, and read the coordinator's public key in any of its forms. The coordinator
decides who is admitted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from fedap_core.errors import InvalidInput
from protocol.errors import InvalidField
from protocol.host.keys import make_key_file, read_key_file
from protocol.host.small_files import read_small_text
from protocol.keys import is_key, parse_public
from protocol.plan import PEER_NAME, PEER_NAME_IN_WORDS


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys of a participant's end of an encrypted connection, all in Z85. The secret never appears in a log."""

    public: str
    secret: str = field(repr=False)
    coordinator: str


@dataclass(frozen=True, kw_only=True)
class NewKeys:
    """Where a new key pair was written, and its public key."""

    secret_file: Path
    public_file: Path
    public: str


def make_keys(folder: Path, name: str) -> NewKeys:
    """Write NAME.key (mode 0600) and NAME.pub; existing files are never replaced, a missing NAME.pub is added."""
    if not re.fullmatch(PEER_NAME, name):
        raise InvalidInput("name", name, PEER_NAME_IN_WORDS)
    path = folder / f"{name}.key"
    pair, public_file = make_key_file(path)
    return NewKeys(secret_file=path, public_file=public_file, public=pair.public)


def read_keys(secret_file: Path, coordinator: str) -> Keys:
    """Read the participant's key pair and the coordinator's public key, given as text or as a file that holds it."""
    pair = read_key_file(secret_file, "Create one with `fedap-participant keygen`.")
    return Keys(public=pair.public, secret=pair.secret, coordinator=_public_key(coordinator.strip()))


def _public_key(given: str) -> str:
    if is_key(given):
        return given
    try:
        return parse_public(read_small_text(Path(given)))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        expected = "the coordinator's public key of 40 characters, or a file that holds it"
        raise InvalidInput("coordinator-key", given, expected) from error
    except InvalidField as error:
        raise InvalidInput("coordinator-key", f"{given}: {error.got}", error.expected) from error
