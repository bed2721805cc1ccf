"""Which files belong to the project, and where. Knows folders and names, not what is right or wrong in a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("protocol", "fedap_core", "coordinator", "participant", "scripts")
"""The packages of the wheel, exactly these."""

_GENERATED = frozenset({"__pycache__", "build", "dist", "runs"})
_HIDDEN_BUT_OURS = frozenset({".ci"})
_MEASURED = frozenset({".csv", ".jsonl", ".svg"})
"""Written by programs and full of numbers: two thirds of all text, and no sentence in it."""


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One Python file: its path from the root, its dotted module name, its text; parsed once for all checks."""

    path: str
    module: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the file that a check asks for: all but the names' contexts and the operators."""
        return tuple(node for node in ast.walk(self.tree) if hasattr(node, "lineno"))

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")

    @property
    def package(self) -> str:
        return self.path.partition("/")[0]


def source_of(path: str, text: str) -> SourceFile:
    """The source at a path given from the root; the module name follows from it."""
    parts = path.removesuffix(".py").split("/")
    return SourceFile(path=path, module=".".join(parts[:-1] if parts[-1] == "__init__" else parts), text=text)


@cache
def python_sources(*folders: str) -> tuple[SourceFile, ...]:
    """Every Python file below the named folders of the root, in order of path."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(source_of(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in paths)


def sources_of_packages() -> tuple[SourceFile, ...]:
    """The packages of the wheel."""
    return python_sources(*PACKAGES)


def sources_of_tests() -> tuple[SourceFile, ...]:
    """The tests and what they build on."""
    return python_sources("tests")


def text_files(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """(path from the root, text) of every project file that is text; caches, environments and tables are left out."""
    for path in sorted(root.iterdir()):
        if path.is_dir():
            hidden = path.name.startswith(".") and path.name not in _HIDDEN_BUT_OURS
            if not hidden and path.name not in _GENERATED and not path.name.endswith(".egg-info"):
                yield from ((f"{path.name}/{below}", text) for below, text in text_files(path))
        elif path.name == ".git" or path.suffix in _MEASURED:  # of a second working tree, .git is a file
            continue
        elif (text := _text_of(path)) is not None:
            yield path.name, text


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, FileNotFoundError):  # an array or a picture; or a file removed while we look
        return None
