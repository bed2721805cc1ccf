"""Generate the parts of SPEC.md that come from code: messages, fields, transitions, codes.

`python -m protocol.describe < protocol/SPEC.md` prints the document with these parts regenerated between their marks.
Decides only their format; prose, grammar and limits are written by hand and compared by a test.
"""

from __future__ import annotations

import inspect
import re
import sys

from protocol.contracts import Record
from protocol.conversation import TABLE, PeerState
from protocol.errors import CONTENT_CODES, REFUSAL_CODES, WIRE_CODES
from protocol.messages import KINDS, Compute, Message, PeerWeight, Plan, Score, Sealing, Sgd, Side, Step

RECORDS: tuple[type[Record], ...] = (Plan, Sgd, Compute, Sealing, Step, Score, PeerWeight)
"""Maps inside messages."""

_FIELD = re.compile(r"^(\w+): (.+)$")
_MARKED = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def meanings(record: type[Record]) -> tuple[str, dict[str, str]]:
    """Parse a record's docstring: its first paragraph, and a sentence for every field."""
    paragraph, _, rest = inspect.cleandoc(record.__doc__ or "").partition("\n\n")
    unwrapped = re.sub(r"\n +", " ", rest)
    fields = {match[1]: match[2] for line in unwrapped.splitlines() if (match := _FIELD.match(line))}
    return " ".join(paragraph.split()), fields


def fields_table(record: type[Record]) -> str:
    """Return a table with one row per field: name, valid values, meaning; optional fields are marked."""
    _, meaning = meanings(record)
    rows = ["| field | holds | meaning |", "|---|---|---|"]
    for name, contract in record.CONTRACTS:
        optional = "" if name in record.REQUIRED else " (optional)"
        rows.append(f"| `{name}`{optional} | {contract.expected} | {meaning.get(name, '')} |")
    return "\n".join(rows) if record.CONTRACTS else "No fields."


def _senders(message: type[Message]) -> str:
    if len(message.SENDERS) == 2:
        return "either side"
    return f"{next(iter(message.SENDERS))} → {next(iter(message.SENDERS)).other}"


def messages() -> str:
    sections = [
        f"### {kind} ({_senders(message)})\n\n{meanings(message)[0]}\n\n{fields_table(message)}"
        for kind, message in KINDS.items()
    ]
    return "\n\n".join(sections)


def records() -> str:
    return "\n\n".join(f"### {kind.__name__}\n\n{meanings(kind)[0]}\n\n{fields_table(kind)}" for kind in RECORDS)


def kinds() -> str:
    """Return the grammar's rule for kinds."""
    names = [f'"{kind}"' for kind in KINDS]
    lines = [" / ".join(names[start : start + 6]) for start in range(0, len(names), 6)]
    return "```abnf\nkind     = " + "\n         / ".join(lines) + "\n```"


def transitions() -> str:
    """Return a table of what each side may send in which state, and a diagram of the transitions."""
    rows = ["| state | the participant may send | the coordinator may send |", "|---|---|---|"]
    moves: dict[tuple[PeerState, PeerState], list[str]] = {}
    for state, senders in TABLE.items():
        cells = []
        for side in Side:
            sent = senders[side]
            cells.append(", ".join(k if to is state else f"{k} ⇒ {to}" for k, to in sent.items()))
            for kind, to in sent.items():
                if to is not state:
                    moves.setdefault((state, to), []).append(kind)
        rows.append(f"| {state} | {cells[0]} | {cells[1]} |")
    arrows = [f"    {source} --> {to}: {', '.join(dict.fromkeys(kinds))}" for (source, to), kinds in moves.items()]
    diagram = ["```mermaid", "stateDiagram-v2", f"    [*] --> {PeerState.UNKNOWN}", *arrows, "```"]
    return "\n".join([*rows, "", *diagram])


def codes() -> str:
    tables = (
        ("The bytes or their order are wrong (in `error`)", WIRE_CODES),
        ("The participant may not take part (in `reject`)", REFUSAL_CODES),
        ("The message is well formed and not wanted (in `error` and `cancel`)", CONTENT_CODES),
    )
    sections = []
    for title, table in tables:
        rows = [f"| `{code}` | {meaning} |" for code, meaning in table.items()]
        sections.append("\n".join([f"{title}:", "", "| code | meaning |", "|---|---|", *rows]))
    return "\n\n".join(sections)


DRAWN = {"kinds": kinds, "messages": messages, "records": records, "transitions": transitions, "codes": codes}
"""The marks of SPEC.md and the function that generates the text between them."""


def redraw(document: str) -> str:
    """Return the document with everything between `<!-- drawn: NAME -->` and `<!-- end -->` regenerated."""
    return _MARKED.sub(lambda mark: f"{mark[1]}\n{DRAWN[mark[2]]()}\n\n{mark[3]}", document)


if __name__ == "__main__":
    sys.stdout.write(redraw(sys.stdin.read()))
