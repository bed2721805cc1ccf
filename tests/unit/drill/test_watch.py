"""Claims about what is read from logs."""

from __future__ import annotations

from pathlib import Path

from scripts.drill.watch import traces


def test_an_exception_counts_where_nobody_caught_it(tmp_path: Path) -> None:
    caught, uncaught = tmp_path / "a.log", tmp_path / "b.log"
    caught.write_text('{"event": "work.failed", "exception": "Traceback (most recent call last):\\\\n  File"}\n')
    uncaught.write_text('{"event": "run.began"}\nTraceback (most recent call last):\n  File "x"\nOSError\n')
    assert traces({"a": caught, "b": uncaught, "c": tmp_path / "none.log"}) == ["b"]
