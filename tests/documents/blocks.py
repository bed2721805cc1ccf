"""Code blocks of a Markdown page and how each is to be run. Reads text; runs nothing.

A comment right before a block says what is special about it, one before the page's first heading what holds for all:

    <!-- run: slow -->                       only in the slow suite
    <!-- run: background -->                 the next block does not wait for it; it must end with code 0 all the same
    <!-- run: wait -->                       first wait until the blocks in the background have ended
    <!-- run: replace "100" with "2" -->     a smaller budget, or an address of this machine
    <!-- run: fails with 2 -->               the exit code that the page speaks of
    <!-- run: never because REASON -->       cannot run on one machine

Several of them are separated by semicolons. A block with a title, as in ```toml title="run.toml", is a file. Commands
in a comment <!-- first: ... --> make what a page takes for granted, such as a run; the slow suite runs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

RUNNABLE = frozenset({"bash", "python"})
SHOWN_ONLY = frozenset({"abnf", "csv", "json", "mermaid", "text", "toml"})

_FENCE = re.compile(
    r"^<!-- first:\n(?P<setup>.*?)^-->$"
    r"|(?:^<!-- run: (?P<marks>[^\n]*?) -->\n+)?^```(?P<language>[\w-]*)(?P<rest>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_PAGE = re.compile(r"\A(?:#[^\n]*\n+)?<!-- page: ([^\n]*?) -->")
_TITLE = re.compile(r'title="([^"]+)"')
_REPLACE = re.compile(r'replace "([^"]+)" with "([^"]*)"')
_NEVER = re.compile(r"never because (.+)")
_FAILS = re.compile(r"fails with (\d+)")


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What a comment says about the blocks it stands before."""

    slow: bool = False
    background: bool = False
    wait: bool = False
    never: str = ""
    exit_code: int = 0
    replace: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block. line: of its fence, counted from 1; title: the file it is, or nothing."""

    language: str
    code: str
    line: int
    title: str
    marks: Marks

    @property
    def runs(self) -> bool:
        """Whether it is code to execute, and not a file or something that is only shown."""
        return self.language in RUNNABLE and not self.title and not self.marks.never


def read_marks(text: str) -> Marks:
    """The clauses of one comment; ValueError names one that is unknown."""
    found: dict[str, object] = {}
    replace: list[tuple[str, str]] = []
    for clause in filter(None, (part.strip() for part in text.split(";"))):
        if clause in ("slow", "background", "wait"):
            found[clause] = True
        elif match := _REPLACE.fullmatch(clause):
            replace.append((match[1], match[2]))
        elif match := _NEVER.fullmatch(clause):
            found["never"] = match[1]
        elif match := _FAILS.fullmatch(clause):
            found["exit_code"] = int(match[1])
        else:
            raise ValueError(f"unknown mark {clause!r}")
    return Marks(**found, replace=tuple(replace))  # type: ignore[arg-type]


def page_marks(text: str) -> Marks:
    """What the page says about all of its blocks."""
    found = _PAGE.search(text)
    return read_marks(found[1] if found else "")


def read_blocks(text: str) -> Iterator[Block]:
    """The page's blocks in order, each with the page's marks added to its own."""
    page = page_marks(text)
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("setup") if found["setup"] else found.start("language")) + 1
        if found["setup"] is not None:
            yield Block(language="bash", code=found["setup"], line=line, title="", marks=Marks(slow=True))
            continue
        own = read_marks(found["marks"] or "")
        title = _TITLE.search(found["rest"])
        yield Block(
            language=found["language"],
            code=found["code"],
            line=line,
            title=title[1] if title else "",
            marks=Marks(
                slow=own.slow or page.slow,
                background=own.background,
                wait=own.wait,
                never=own.never or page.never,
                exit_code=own.exit_code,
                replace=(*own.replace, *page.replace),
            ),
        )


def replaced(code: str, marks: Marks) -> str:
    """The code as it is run."""
    for old, new in marks.replace:
        code = code.replace(old, new)
    return code
