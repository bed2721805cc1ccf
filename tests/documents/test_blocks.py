"""What the comments before code blocks mean, and that a page which is wrong is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.blocks import read_blocks, read_marks, replaced
from tests.documents.running import PageFailed, Reader


def follow(text: str, folder: Path) -> None:
    with Reader("page.md", folder) as reader:
        reader.follow(read_blocks(text))


def test_marks_of_a_block_are_its_own_and_those_of_its_page() -> None:
    page = '# T\n\n<!-- page: slow; replace "9" with "1" -->\n'
    text = f"{page}\n<!-- run: wait -->\n```bash\necho 9\n```\n```text\n9\n```\n"
    first, second = read_blocks(text)
    assert (first.marks.slow, first.marks.wait, first.line) == (True, True, 6)
    assert replaced(first.code, first.marks) == "echo 1\n"
    assert (second.marks.wait, second.runs) == (False, False)


def test_unknown_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown mark 'slowly'"):
        read_marks("slow; slowly")


def test_blocks_share_a_folder_and_python_blocks_their_names(tmp_path: Path) -> None:
    follow(
        '```toml title="a/b.toml"\nx = 1\n```\n```python\ny = open("a/b.toml").read()\n```\n'
        '```python\nopen("c", "w").write(y)\n```\n```bash\ncmp a/b.toml c\n```\n',
        tmp_path,
    )
    assert (tmp_path / "c").read_text() == "x = 1\n"


def test_background_block_is_waited_for(tmp_path: Path) -> None:
    """The first block ends only after the second has made a file; the third needs what the first then makes."""
    follow(
        "<!-- run: background -->\n```bash\nuntil [ -e go ]; do sleep 0.02; done; touch done\n```\n"
        "```bash\ntouch go\n```\n<!-- run: wait -->\n```bash\nrm done\n```\n",
        tmp_path,
    )
    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize(
    "text",
    [
        "```bash\nfalse\n```\n",
        "```bash\nfalse | cat\n```\n",
        "<!-- run: background -->\n```bash\nfalse\n```\n",
        "<!-- run: fails with 2 -->\n```bash\ntrue\n```\n",
        "```python\nraise SystemExit\n```\n",
        "```python\nx = 1\n```\n```python\nassert x == 2\n```\n",
    ],
)
def test_block_that_fails_is_found(text: str, tmp_path: Path) -> None:
    with pytest.raises(PageFailed, match=r"page\.md:"):
        follow(text, tmp_path)


def test_block_that_is_never_run_is_not_run(tmp_path: Path) -> None:
    follow("<!-- run: never because it needs two machines -->\n```bash\nfalse\n```\n", tmp_path)
    assert list(tmp_path.iterdir()) == []
