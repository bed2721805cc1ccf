"""How a number of cases is shared among the targets: by what a case costs, so that each gets a fair part of the time.

Known before anything of the protocol is imported, because some targets change its limits first.
"""

from __future__ import annotations

SHARES = {
    "codec": 0.40,
    "frames": 0.15,
    "conversation": 0.15,
    "transfer": 0.15,
    "coordinator": 0.07,
    "participant": 0.08,
}
"""Parts of all cases. The codec judges bytes from anybody; a case of a machine costs several times as much."""

REAL_LIMITS = frozenset({"codec"})
"""Targets that run under the limits of the wire; the others under tiny slices, so that transfers happen at all."""


def shared(cases: int, target: str) -> dict[str, int]:
    """Cases for each target that is asked for, `all` or one."""
    if target == "all":
        return {name: max(int(cases * share), 1) for name, share in SHARES.items()}
    return {target: cases}
