"""Decides the anchor of each client's page in the file, and the order in which clients are listed."""

from __future__ import annotations

import re
from collections.abc import Sequence


def anchors(names: Sequence[str]) -> list[str]:
    """Return each client's anchor: client-NAME, unique, with only characters that need no quoting."""
    made: dict[str, None] = {}
    for name in names:
        plain = f"client-{re.sub(r'[^A-Za-z0-9_.-]+', '-', name).strip('-') or 'unnamed'}"
        number, anchor = 1, plain
        while anchor in made:
            number += 1
            anchor = f"{plain}-{number}"
        made[anchor] = None
    return list(made)


def natural_order(names: Sequence[str]) -> list[int]:
    """Return the indices of the names in natural order: subject-2 before subject-10."""

    def key(index: int) -> list[tuple[int, int, str]]:
        pieces = re.findall(r"\d+|\D+", names[index])
        return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces]

    return sorted(range(len(names)), key=key)
