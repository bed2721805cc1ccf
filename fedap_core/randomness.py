"""Derive the seed of every random number from (run seed, participant, round, purpose).

No hidden global state: equal arguments give equal streams, in any process and any order of work.
"""

from __future__ import annotations

import hashlib

import numpy as np

_SEED_BITS = 63  # torch.Generator.manual_seed takes a signed 64-bit number


def derive_seed(seed: int, *, purpose: str, participant: str = "", round_no: int = -1) -> int:
    """Return a seed in [0, 2**63) that depends only on the arguments, and on all of them."""
    text = f"{seed}\x1f{participant}\x1f{round_no}\x1f{purpose}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> (64 - _SEED_BITS)


def generator(seed: int, *, purpose: str, participant: str = "", round_no: int = -1) -> np.random.Generator:
    """Return the numpy generator of one purpose."""
    return np.random.default_rng(derive_seed(seed, purpose=purpose, participant=participant, round_no=round_no))
