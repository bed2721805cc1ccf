"""Updates that only members can read: padded on the way out, and sums of them opened and checked on the way in.

q = round(x * 2^24) gets a pad of AES-256-CTR, keyed for run, member, round, phase and a salt that is drawn for every
upload; t = <r, q> + s mod p goes with it. Sums by whole-number weights keep both: whoever knows the uploads' names
derives the same pads, subtracts their sum and compares check values. Decides what a valid sum is; which weights it may
have been made with is `rows`' and the run's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from fedap_core.arrays import Float32Array
from fedap_core.errors import InvalidInput
from fedap_core.sealing import check_value, fixed_point
from fedap_core.sealing.fixed_point import WHOLE, Words
from participant.sealing.group_key import GroupKey

SALT_BYTES = 16
SALT_WORDS = 2
TAG_WORDS = 2
_CHUNK = 1 << 14
"""Words padded at a time: pads of whole models would take their memory once more for every member."""


_ZEROS = memoryview(bytes(8 * _CHUNK))


class BrokenSeal(Exception):
    """A sum is not what it was announced to be; the sentence says how that shows."""


@dataclass(frozen=True, kw_only=True)
class Upload:
    """One update as it was sent, by name. phase: of its round. weight: how much of it went into a sum, of 2^20."""

    member: str
    round_no: int
    phase: str
    salt: bytes
    weight: int = WHOLE

    @property
    def words(self) -> tuple[int, int]:
        """The salt as it travels."""
        low, high = np.frombuffer(self.salt, dtype="<i8").tolist()
        return low, high


class Sealer:
    """Seals updates of one run and opens sums of them."""

    def __init__(self, key: GroupKey, run: str) -> None:
        self._key = key
        self._run = run

    def seal(self, values: Float32Array, upload: Upload) -> NDArray[np.int64]:
        """(P,) values to (P + 4,) words: padded, then the check value's halves, then the salt."""
        if len(upload.salt) != SALT_BYTES:
            raise InvalidInput("salt", len(upload.salt), f"{SALT_BYTES} bytes")
        words = fixed_point.to_words(values)
        sealed = np.empty(words.size + TAG_WORDS + SALT_WORDS, dtype=np.uint64)
        pads, secrets, tag = self._pads(upload, words.size), self._secrets(words.size), self._mask(upload)
        for (start, pad), secret in zip(pads, secrets, strict=True):
            piece = words[start : start + pad.size]
            sealed[start : start + pad.size] = piece + pad
            tag += check_value.inner_product(secret, fixed_point.signed(piece))
        sealed[words.size : words.size + TAG_WORDS] = check_value.halves(tag % check_value.PRIME)
        sealed[words.size + TAG_WORDS :] = np.frombuffer(upload.salt, dtype="<u8")
        return sealed.view(np.int64)

    def open_sum(self, row: NDArray[np.int64], uploads: Sequence[Upload]) -> Float32Array:
        """(P + 2,) words of a mixed row to values (P,). BrokenSeal if it is not the announced sum of these uploads."""
        if sum(one.weight for one in uploads) != WHOLE or any(one.weight <= 0 for one in uploads):
            raise BrokenSeal(f"announced weights sum to {sum(one.weight for one in uploads)}, expected {WHOLE}")
        size = row.size - TAG_WORDS
        words = np.asarray(row).view(np.uint64)
        values = np.empty(size, dtype=np.float32)
        total = check_value.weighted((one.weight for one in uploads), map(self._mask, uploads))
        pads = [self._pads(one, size) for one in uploads]
        for (start, *_), secret, *padded in zip(_spans(size), self._secrets(size), *pads, strict=True):
            sums = words[start : start + secret.size].copy()
            for one, (_, pad) in zip(uploads, padded, strict=True):
                np.multiply(pad, np.uint64(one.weight), out=pad)
                np.subtract(sums, pad, out=sums)
            integers = fixed_point.signed(sums)
            if not fixed_point.is_possible(integers):
                raise BrokenSeal("a sum outside its range: it was changed, or made of other uploads or weights")
            total += check_value.inner_product(secret, integers)
            values[start : start + secret.size] = fixed_point.to_values(integers)
        low, high = (int(one) for one in words[size:])
        if check_value.whole(low, high) != total % check_value.PRIME:
            raise BrokenSeal("the check value is wrong: the sum was changed, or made of other uploads or weights")
        return values

    def _pads(self, upload: Upload, size: int) -> Iterator[tuple[int, Words]]:
        key = self._key.derive(self._run, "pad", *_name(upload))
        return zip((start for start, _ in _spans(size)), _keystream(key, size), strict=True)

    def _secrets(self, size: int) -> Iterator[Words]:
        """The run's secret vector, piece by piece."""
        return map(check_value.residues, _keystream(self._key.derive(self._run, "check"), size))

    def _mask(self, upload: Upload) -> int:
        return int.from_bytes(self._key.derive(self._run, "mask", *_name(upload), length=32), "little") % (
            check_value.PRIME
        )


def sums_of(uploads: Sequence[Upload]) -> Mapping[str, int]:
    """The weights of a mix by member."""
    return {one.member: one.weight for one in uploads}


def _name(upload: Upload) -> tuple[str, ...]:
    return upload.member, str(upload.round_no), upload.phase, upload.salt.hex()


def _spans(size: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + _CHUNK, size)) for start in range(0, size, _CHUNK))


def _keystream(key: bytes, size: int) -> Iterator[Words]:
    cipher = Cipher(AES256(key), CTR(bytes(16))).encryptor()
    return (_random_words(cipher, stop - start) for start, stop in _spans(size))


def _random_words(cipher: CipherContext, count: int) -> Words:
    buffer = np.empty(count + 2, dtype="<u8")  # the cipher wants room for one block more
    cipher.update_into(_ZEROS[: 8 * count], buffer.data.cast("B"))
    return buffer[:count]
