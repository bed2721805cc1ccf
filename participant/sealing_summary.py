"""What `check` prints about a sealed run: how updates, statistics and scores are sent, and who can read them.

Sizes of sealed statistics and scores are those of an example: they vary by a few bytes with the numbers inside.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedap_core.sealing.limitations import cannot_be_had
from participant.sealing.boxes import Boxes, Contents
from participant.sealing.group_key import GroupKey
from protocol.messages import Sealing
from protocol.sealed_sets import box_set, update_layout
from protocol.tensors import Layout

_EXAMPLE = Boxes(key=GroupKey(secret=bytes(32)), run="example", plan="0" * 32)
_SCORE = {
    "model": "delivered",
    "split": "test",
    "samples": 1000,
    "correct": 1000,
    "loss": 0.1234567890123,
    "macro_f1": 0.5,
}


def sealed_layouts(
    sealing: Sealing, clear: Mapping[str, Layout], *, splits: tuple[str, ...] = (), requests: bool = False
) -> dict[str, Layout]:
    """Return the tensors of a message by field as they are sent in a sealed run. clear: those of an unsealed run.
    splits: those whose scores the message carries. requests: whether it carries a row of W."""
    hides = sealing.statistics_to == "members"
    layouts = dict(clear)
    if "weights" in clear:
        layouts["weights"] = update_layout(clear["weights"].elements)
    for field in ("moments", "statistics"):
        if field in clear and hides:
            layouts[field] = _box(clear[field], {"samples": 1000})
    if splits and sealing.scores == "sealed":
        layouts["tables"] = _box(clear.get("tables", Layout(())), {"scores": [_SCORE for _ in splits]})
    if requests and hides:
        layouts["row"] = Layout(())  # one integer per member; their number is not known yet
    return layouts


def _box(layout: Layout, facts: Mapping[str, object]) -> Layout:
    arrays = {spec.name: np.zeros(spec.shape, dtype=spec.dtype) for spec in layout.specs}
    contents = Contents(round_no=0, facts=dict(facts), arrays=arrays)
    return box_set(_EXAMPLE.seal(contents, purpose="statistics", member="example")).layout


def sealed_lines(sealing: Sealing) -> list[str]:
    """For the user: who can read what, and which features a sealed run lacks."""
    hides = sealing.statistics_to == "members"
    scores = "the coordinator" if sealing.scores == "clear" else "all members"
    return [
        f"sealed under group key {sealing.fingerprint}; who can read what is sent:",
        "  weights: only you; the other members get sums of several members' updates",
        f"  statistics, number of samples: {'all members' if hides else 'the coordinator'}",
        f"  losses, scores, class tables: {scores}",
        "  your row of W, name, rounds, digests, sizes and times: the coordinator",
        "limitations of a sealed run:",
        *(f"  {line}" for line in cannot_be_had(statistics_to_members=hides)),
    ]
