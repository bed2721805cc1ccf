"""Decides which kinds of drills this machine and this user can play, and why not the others."""

from __future__ import annotations

from pathlib import Path

from scripts.drill import disk, namespaces
from scripts.drill.schedule import KINDS


def impossible_kinds() -> dict[str, str]:
    """Return the kinds that cannot be played here, each with the reason."""
    no_spaces, no_disks = namespaces.why_impossible(), disk.why_impossible()
    no_netem = no_spaces or (None if namespaces.has_netem() else "this kernel has no netem")
    found: dict[str, str] = {}
    for name, kind in KINDS.items():
        reason = (
            (no_disks if kind.uses_small_disks else None)
            or (no_spaces if kind.uses_namespaces else None)
            or (no_netem if kind.uses_netem else None)
        )
        if reason:
            found[name] = reason
    return found


def tidy_up(root: Path) -> None:
    """Remove what killed drills left in the system."""
    namespaces.remove_leftovers()
    disk.remove_leftovers(root)
