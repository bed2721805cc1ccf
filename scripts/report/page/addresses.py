"""Where each client's page is found in the file, and in which order clients are listed."""

from __future__ import annotations

import re
from collections.abc import Sequence


def anchors(names: Sequence[str]) -> list[str]:
    """Where each client's page is found: client-NAME, with only letters that need no quoting, each once."""
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
    """Names as people sort them: subject-2 before subject-10."""

    def key(index: int) -> list[tuple[int, int, str]]:
        pieces = re.findall(r"\d+|\D+", names[index])
        return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces]

    return sorted(range(len(names)), key=key)
