"""Encrypt statistics, sample counts and scores so that only members can open them: ChaCha20-Poly1305 under a key of
run, member and purpose.

Run, member, plan and purpose are authenticated with a box, so that it cannot be passed off as another one; its round is
inside. This module defines the format of a box; the meaning of its contents is defined elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from participant.sealing.group_key import GroupKey
from participant.sealing.updates import BrokenSeal
from protocol.errors import InvalidField
from protocol.tensors import Array, Layout, TensorSet

_NONCE_BYTES = 12
_LEAD_BYTES = 16
"""The nonce, padded to whole words."""


def plan_digest(plan: Mapping[str, object]) -> str:
    """Return the digest that binds boxes to the plan that all members agreed to. plan: as written in a welcome."""
    return hashlib.blake2b(json.dumps(plan, sort_keys=True).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of a box. round_no: that of its report. facts: plain values that JSON can hold."""

    round_no: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """Seals and opens boxes of one run. plan: digest of its plan."""

    key: GroupKey
    run: str
    plan: str

    def seal(self, contents: Contents, *, purpose: str, member: str) -> bytes:
        """Return the box; its size is a multiple of 8 bytes."""
        tensors = TensorSet.of(dict(contents.arrays))
        data = b"" if tensors.data is None else bytes(tensors.data)
        head = {"round": contents.round_no, "facts": dict(contents.facts), "layout": tensors.layout.text}
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        plain = len(text).to_bytes(8, "little") + text + data + bytes(-len(data) % 8)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher(purpose, member).encrypt(nonce, plain, self._about(purpose, member))
        return nonce.ljust(_LEAD_BYTES, b"\0") + sealed

    def open(self, box: bytes, *, purpose: str, member: str) -> Contents:
        """Return the contents. BrokenSeal if the box was not sealed under this member's name for this purpose."""
        nonce, sealed = box[:_NONCE_BYTES], box[_LEAD_BYTES:]
        try:
            plain = self._cipher(purpose, member).decrypt(nonce, sealed, self._about(purpose, member))
            size = int.from_bytes(plain[:8], "little")
            head = json.loads(plain[8 : 8 + size])
            layout = Layout.parse(head["layout"])
            data = plain[8 + size :][: layout.size_bytes("f32")]
            arrays = TensorSet.staying(layout, "f32", data).arrays()
            return Contents(round_no=int(head["round"]), facts=head["facts"], arrays=arrays)
        except (InvalidTag, InvalidField, ValueError, KeyError, TypeError) as error:
            raise BrokenSeal(f"{purpose} of {member} cannot be opened: not sealed by a member for this run") from error

    def _cipher(self, purpose: str, member: str) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(self.key.derive(self.run, "box", purpose, member))

    def _about(self, purpose: str, member: str) -> bytes:
        return "\0".join((self.run, self.plan, purpose, member)).encode()
