"""Seal updates so that only members can read them: pad outgoing updates, open and check incoming sums of them.

q = round(x * 2^24) is padded with AES-256-CTR, keyed by run, member, round, phase and a salt drawn for every upload;
the check value t = <r, q> + s mod p is sent with it. Both survive sums with integer weights: a member that knows which
uploads went in derives the same pads, subtracts their sum and compares check values. This module decides whether a sum
is valid; `rows` and the run decide which weights it may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from fedap_core.arrays import Float32Array
from fedap_core.errors import InvalidInput
from fedap_core.sealing import check_value, fixed_point
from fedap_core.sealing.check_value import Limbs
from fedap_core.sealing.fixed_point import WHOLE, Words
from participant.sealing.group_key import GroupKey

SALT_BYTES = 16
SALT_WORDS = 2
TAG_WORDS = 2
_CHUNK = 1 << 14
"""Words padded at a time: pads of whole models would take a model's memory again for every member."""

_KEPT_VALUES = 1 << 18
"""The secret vector of up to this many values stays in memory (24 bytes each); a longer one is recomputed."""

_ZEROS = memoryview(bytes(8 * _CHUNK))


class BrokenSeal(Exception):
    """A sum is not what was announced; the message says how that was detected."""


@dataclass(frozen=True, kw_only=True)
class Upload:
    """Identifies one sent update. phase: that of its round. weight: its share of a sum, in units of 2^-20."""

    member: str
    round_no: int
    phase: str
    salt: bytes
    weight: int = WHOLE

    @property
    def words(self) -> tuple[int, int]:
        """The salt as sent: two integers."""
        low, high = np.frombuffer(self.salt, dtype="<i8").tolist()
        return low, high


class Sealer:
    """Seals updates of one run and opens sums of them. Used by one thread at a time."""

    def __init__(self, key: GroupKey, run: str) -> None:
        self._key = key
        self._run = run
        self._pad = np.empty(_CHUNK + 2, dtype="<u8")  # the cipher needs room for one more block
        self._kept: dict[int, tuple[tuple[int, Limbs], ...]] = {}
        """The run's secret vector by length: one for warm-up, one for the other rounds."""

    def seal(self, values: Float32Array, upload: Upload) -> NDArray[np.int64]:
        """Seal (P,) values as (P + 4,) words: the padded values, the two halves of the check value, the salt."""
        if len(upload.salt) != SALT_BYTES:
            raise InvalidInput("salt", len(upload.salt), f"{SALT_BYTES} bytes")
        size = values.size
        sealed = np.empty(size + TAG_WORDS + SALT_WORDS, dtype=np.uint64)
        cipher, tag = self._cipher(upload), self._mask(upload)
        for start, secret in self._secrets(size):
            piece = fixed_point.to_words(values[start : start + _CHUNK])
            tag += check_value.product_with(secret, fixed_point.signed(piece))
            np.add(piece, self._next(cipher, piece.size), out=sealed[start : start + piece.size])
        sealed[size : size + TAG_WORDS] = check_value.halves(tag % check_value.PRIME)
        sealed[size + TAG_WORDS :] = np.frombuffer(upload.salt, dtype="<u8")
        return sealed.view(np.int64)

    def open_sum(self, row: NDArray[np.int64], uploads: Sequence[Upload]) -> Float32Array:
        """Open (P + 2,) words of a mixed row as (P,) values. BrokenSeal if it is not the announced sum of uploads."""
        if sum(one.weight for one in uploads) != WHOLE or any(one.weight <= 0 for one in uploads):
            raise BrokenSeal(f"announced weights sum to {sum(one.weight for one in uploads)}, expected {WHOLE}")
        size = row.size - TAG_WORDS
        words = np.asarray(row).view(np.uint64)
        values = np.empty(size, dtype=np.float32)
        total = check_value.weighted((one.weight for one in uploads), map(self._mask, uploads))
        ciphers = [(self._cipher(one), np.uint64(one.weight)) for one in uploads]
        for start, secret in self._secrets(size):
            sums = words[start : start + secret.shape[1]].copy()
            for cipher, weight in ciphers:
                pad = self._next(cipher, sums.size)
                np.multiply(pad, weight, out=pad)
                np.subtract(sums, pad, out=sums)
            integers = fixed_point.signed(sums)
            if not fixed_point.is_possible(integers):
                raise BrokenSeal("a sum outside its range: it was changed, or made of other uploads or weights")
            total += check_value.product_with(secret, integers)
            values[start : start + sums.size] = fixed_point.to_values(integers)
        low, high = (int(one) for one in words[size:])
        if check_value.whole(low, high) != total % check_value.PRIME:
            raise BrokenSeal("the check value is wrong: the sum was changed, or made of other uploads or weights")
        return values

    def _cipher(self, upload: Upload) -> CipherContext:
        return _stream(self._key.derive(self._run, "pad", *_name(upload)))

    def _next(self, cipher: CipherContext, count: int) -> Words:
        """Return the next words of a pad; valid until the next call."""
        cipher.update_into(_ZEROS[: 8 * count], self._pad.data.cast("B"))
        return self._pad[:count]

    def _secrets(self, size: int) -> Iterable[tuple[int, Limbs]]:
        """Yield the run's secret vector in chunks, each with its start."""
        if size > _KEPT_VALUES:
            return self._made_secrets(size)
        if size not in self._kept:
            self._kept[size] = tuple(self._made_secrets(size))
        return self._kept[size]

    def _made_secrets(self, size: int) -> Iterator[tuple[int, Limbs]]:
        stream = _stream(self._key.derive(self._run, "check"))
        for start in range(0, size, _CHUNK):
            words = self._next(stream, min(_CHUNK, size - start))
            yield start, check_value.limbs(check_value.residues(words))

    def _mask(self, upload: Upload) -> int:
        return int.from_bytes(self._key.derive(self._run, "mask", *_name(upload), length=32), "little") % (
            check_value.PRIME
        )


def _name(upload: Upload) -> tuple[str, ...]:
    return upload.member, str(upload.round_no), upload.phase, upload.salt.hex()


def _stream(key: bytes) -> CipherContext:
    """Return a stream of pseudo-random words: encrypted zeros."""
    return Cipher(AES256(key), CTR(bytes(16))).encryptor()
