"""Claims about the command's options: what is wrong is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from scripts.drill.command import drill


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({"kind": ["kil"]}, "kill"),
        ({"model": "big"}, "large"),
        ({"mode": "fast"}, "barrier"),
        ({"kind": ["member-values"], "sealed": True}, "with --sealed, one of kill"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_known(tmp_path: Path, options: dict[str, object], known: str) -> None:
    with pytest.raises(InvalidInput, match=known):
        drill(out=tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_folder_for_drills(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(InvalidInput, match="folder"):
        drill(out=tmp_path / "out")


def test_the_kinds_are_listed_with_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    drill(list_kinds=True)
    assert "SIGKILL of any party" in capsys.readouterr().out
