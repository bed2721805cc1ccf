"""README and docs are true: every block of code on every page is run, in order, as it stands there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.documents.blocks import RUNNABLE, SHOWN_ONLY, Block, page_marks, read_blocks
from tests.documents.running import Reader

ELSEWHERE = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "protocol/SPEC.md")
PAGES = (*ELSEWHERE, *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")))
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
BLOCKS: dict[str, tuple[Block, ...]] = {page: tuple(read_blocks(text)) for page, text in TEXTS.items()}

NEVER_RUN = Counter({"README.md": 2, "CONTRIBUTING.md": 2, "docs/quickstart.md": 1})
NEVER_RUN += Counter({"docs/leaderboard.md": 1, "docs/scale.md": 4, "docs/sealed.md": 1})
"""How many blocks of a page cannot run on one machine; the reason stands before each of them."""


def runnable(page: str) -> list[Block]:
    return [block for block in BLOCKS[page] if block.runs or (block.title and not block.marks.never)]


QUICK = [page for page in PAGES if any(block.runs and not block.marks.slow for block in runnable(page))]
SLOW = [page for page in PAGES if any(block.runs and block.marks.slow for block in runnable(page))]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str) -> None:
    fences = sum(line.lstrip().startswith("```") for line in TEXTS[page].splitlines())
    setups = TEXTS[page].count("<!-- first:\n")
    assert fences == 2 * (len(BLOCKS[page]) - setups), "a fence that is indented or has no end"
    assert {block.language for block in BLOCKS[page]} <= RUNNABLE | SHOWN_ONLY


@pytest.mark.parametrize("page", PAGES)
def test_every_replacement_replaces_something(page: str) -> None:
    blocks = runnable(page)
    for block in blocks:
        own = block.marks.replace[: len(block.marks.replace) - len(page_marks(TEXTS[page]).replace)]
        assert [old for old, _ in own if old not in block.code] == []
    for old, _ in page_marks(TEXTS[page]).replace:
        assert any(old in block.code for block in blocks), old


def test_blocks_that_are_never_run_are_few_and_known() -> None:
    found = Counter({page: sum(bool(block.marks.never) for block in BLOCKS[page]) for page in PAGES})
    assert +found == NEVER_RUN


@pytest.mark.parametrize("page", QUICK)
def test_page_is_true(page: str, tmp_path: Path) -> None:
    with Reader(page, tmp_path) as reader:
        assert reader.follow(block for block in runnable(page) if not block.marks.slow) > 0


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW)
def test_whole_page_is_true(page: str, tmp_path: Path) -> None:
    with Reader(page, tmp_path) as reader:
        assert reader.follow(runnable(page)) > 0
