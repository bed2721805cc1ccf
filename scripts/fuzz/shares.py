"""Distributes cases among the targets by what a case costs, so that each gets a fair part of the time.

Imports nothing of the protocol, because some targets change its limits before it is imported.
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
"""Shares of all cases. The codec handles bytes from anybody; a case of a machine costs several times as much."""

REAL_LIMITS = frozenset({"codec"})
"""Targets that run under the wire's limits; the others use tiny slices, so that transfers happen at all."""


def shared(cases: int, target: str) -> dict[str, int]:
    """Return the cases of each requested target, `all` or one."""
    if target == "all":
        return {name: max(int(cases * share), 1) for name, share in SHARES.items()}
    return {target: cases}
