"""Publishes what a hostile coordinator may try against a participant, and the outcome of each attempt.

Every scenario is played over a real socket by a test, which also compares this list with docs/hostile-coordinator.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.drill.hostile.false_coordinator import Scenario, ScenarioOutcome, perform
from scripts.drill.hostile.false_orders import ORDERS
from scripts.drill.hostile.false_traffic import TRAFFIC
from scripts.drill.hostile.false_transfers import TRANSFERS
from scripts.drill.hostile.false_welcomes import WELCOMES
from scripts.drill.hostile.scripted_coordinator import ScenarioData

__all__ = ["SCENARIOS", "SLICED", "Scenario", "ScenarioData", "ScenarioOutcome", "page", "perform"]

_GROUPS: tuple[tuple[str, tuple[Scenario, ...]], ...] = (
    ("Plans and welcomes", WELCOMES),
    ("Orders and delivered models", ORDERS),
    ("Traffic", TRAFFIC),
)

SCENARIOS: dict[str, Scenario] = {one.name: one for _, group in _GROUPS for one in group}
"""Played with a model that fits one message."""

SLICED: dict[str, Scenario] = {**SCENARIOS, **{one.name: one for one in TRANSFERS}}
"""Played with a model that is sent in slices: the same, and those that only slices allow."""

_HEAD = """# What a hostile coordinator can do to a participant

A coordinator leads a run; it must not be able to make a hospital do more than its operator agreed to.
`fedap-participant check` prints what leaves and what a plan may ask for; `join --algorithm NAME` and `--allow` narrow
it. The list below is what a coordinator that means harm may try. Each line is played by
`tests/integration/test_hostile_coordinator.py` over a real socket against the code behind `join`, and is survived only
if

- every message that left, by the wire and by the participant's own `sent.jsonl`, is in the list that `check` prints,
  and every slice belongs to such a message;
- no module that a message names was imported;
- nothing was written outside the state folder, and every model in it has sound values;
- the participant ended as the line says, with one sentence for its operator.

This page is printed from the scenarios' own table (`python -m scripts.drill.hostile.coordinator`). A coordinator can
still end a run, exclude a member or give it a bad model that looks like a model; `export --own` then has what one's own
training made last.
"""


def page() -> str:
    """Return the whole document."""
    lines = [_HEAD]
    for title, group in (*_GROUPS, ("Transfers of large models", TRANSFERS)):
        lines += [f"## {title}", "", "| | the coordinator | the participant |", "|---|---|---|", *_rows(group), ""]
    lines.append(
        f"{len(SLICED)} scenarios. All are played with a model that travels in slices (8 MiB), and all but those about "
        f"transfers, {len(SCENARIOS)}, with one that fits one message, too."
    )
    return "\n".join(lines) + "\n"


def _rows(group: Sequence[Scenario]) -> list[str]:
    return [f"| `{one.name}` | {one.does} | {one.outcome} |" for one in group]


if __name__ == "__main__":
    print(page(), end="")
