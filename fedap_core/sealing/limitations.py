"""The limitations of a sealed run as text: one list for every place that shows it."""

from __future__ import annotations


def cannot_be_had(*, statistics_to_members: bool) -> tuple[str, ...]:
    """Return one sentence for each limitation."""
    lines = [
        "The coordinator cannot inspect values; each member checks what it receives and may refuse it.",
        "One member together with the coordinator can read all updates, because all members have the same key.",
        "The coordinator still sees W, who takes part, sizes and times.",
        "In a federation of two, each member can compute the other's update.",
    ]
    if statistics_to_members:
        lines.append("Members see each other's statistics and numbers of samples.")
    return tuple(lines)
