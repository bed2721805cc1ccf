"""The diagram of a run's stages, drawn from the coordinator's own table: `python -m tests.architecture.stage_diagram`.

Prints what ARCHITECTURE.md must hold between its two marks; a test compares.
"""

from __future__ import annotations

from coordinator.decisions.stages import ABORTED, Stage, moves

BEGIN, END = "<!-- stages: begin -->", "<!-- stages: end -->"


def diagram() -> str:
    """Mermaid: stages, and the facts that lead from one to another."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Stage.ENROLLING}: Began"]
    lines += [f"    {one} --> {following}: {_shown(name)}" for one, name, following in moves()]
    lines += [f"    {stage} --> [*]: Ended" for stage in Stage if stage.is_over]
    return "\n".join([*lines, "```"])


def _shown(name: str) -> str:
    return "Finished, aborted" if name == ABORTED else name


if __name__ == "__main__":
    print(BEGIN, diagram(), END, sep="\n")
