"""Lists attacks by name, and makes one for a federation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scripts.drill.hostile.floods import ATTACKS, Attack, Attackers
from scripts.drill.hostile.members import LIARS, Membership, keyed_garbage, lying
from scripts.drill.hostile.mutants import hellos, mutants

UNDER_NAMES = {"mutants": mutants, "hellos": hellos}
"""Attacks under members' names. Without keys the first to use a name owns it: these start after all have joined."""


KEYED = "keyed-garbage"


def make_attackers(
    name: str, endpoint: str, *, seed: int, initial: Path, members: Sequence[str], run: str, keys: Path | None
) -> Attackers:
    """Make an attack that is repeated. keys: the folder with those of a hostile member, if lines are encrypted."""
    attack: Attack
    if name in LIARS:
        attack = lying(name, Membership(initial=initial, folder=keys))
    elif name == KEYED:
        attack = keyed_garbage(Membership(initial=initial, folder=keys))
    else:
        attack = UNDER_NAMES[name](initial, members, run) if name in UNDER_NAMES else ATTACKS[name]
    return Attackers(attack, endpoint, seed=seed)
