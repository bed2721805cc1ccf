"""README is short, quoted messages exist, figures are current, and the site loads nothing from other hosts."""

from __future__ import annotations

import html
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from fedap_core.errors import InvalidInput
from fedap_core.participation import require_participation
from fedap_core.strategies import STRATEGIES, make_strategy
from scripts.report.algorithms import spelled
from tests.architecture.sources import PACKAGES, ROOT, python_sources

_LOADED = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
_LINKED = re.compile(r"<(?:a|img)\b[^>]*?\s(?:src|href)=[\"']?([^\"'\s>]+)")
_IMPORTED = re.compile(r"url\([\"']?(?:https?:)?//")


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


def test_messages_of_the_troubleshooting_tables_exist() -> None:
    """Each is a part of one literal in the code, so that searching the page for what a command printed finds it."""
    guide = (ROOT / "docs/operate.md").read_text(encoding="utf-8").partition("## Troubleshooting")[2]
    quoted = re.findall(r"^\| `([^`]+)`", guide, re.MULTILINE)
    code = "".join(source.text for source in python_sources("coordinator", "participant", "protocol", "fedap_core"))
    assert len(quoted) > 15
    assert [message for message in quoted if message not in code] == []


def test_algorithms_that_are_explained_exist() -> None:
    page = (ROOT / "docs/fedap.md").read_text(encoding="utf-8").partition("## Algorithms")[2].partition("\n## ")[0]
    assert (
        {"base", "fedavg", "fedbn", "fedap"} <= set(re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)) <= set(STRATEGIES)
    )
    assert "<!-- algorithms -->" in page  # where the site lists the others


def test_files_that_the_architecture_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    files = {f"/{source.path}" for source in python_sources(*PACKAGES, "docs", "tests")}
    named = set(re.findall(r"[\w/]+\.py\b", text)) - {"fedap.py"}
    assert [name for name in sorted(named) if not any(file.endswith(f"/{name}") for file in files)] == []


def test_algorithms_that_need_all_clients_are_listed() -> None:
    text = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
    sentence = text.partition(" need all clients")[0].rpartition(". ")[2]
    listed = re.split(r",\s|\sand\s", sentence)
    assert sorted(listed) == sorted(spelled(name) for name in STRATEGIES if _refuses_a_share(name))


def _refuses_a_share(name: str) -> bool:
    try:
        require_participation(make_strategy(name, {}), 0.5)
    except InvalidInput:
        return True
    return False


def test_algorithms_whose_runs_are_named_by_their_number_of_rounds_are_listed() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = text.partition("strategies that plan with it (")[2].partition(")")[0].split(", ")
    assert sorted(listed) == sorted(spelled(name) for name, one in STRATEGIES.items() if one.depends_on_rounds)


def figures() -> dict[str, Callable[[], str]]:
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs/figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    drawn: dict[str, Callable[[], str]] = module.FIGURES
    return drawn


def test_figures_are_what_their_script_draws() -> None:
    for file, draw in figures().items():
        assert (ROOT / "docs/assets" / file).read_text(encoding="utf-8") == draw(), "run python docs/figures.py"


@pytest.mark.slow
def test_site_is_whole_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]  # --quiet hides warnings
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    assert [tag for page in pages for tag in _LOADED.findall(page.read_text(encoding="utf-8"))] == []
    assert [path for path in tmp_path.rglob("*.css") if _IMPORTED.search(path.read_text(encoding="utf-8"))] == []
    assert {link for page in pages for link in _dead_links(tmp_path, page)} == set()


def _dead_links(site: Path, page: Path) -> Iterator[str]:
    """Links and pictures of a page whose file is not in the site; other hosts and places on the page do not count."""
    for target in _LINKED.findall(page.read_text(encoding="utf-8")):
        parts = urlsplit(html.unescape(target))
        folder = site if parts.path.startswith("/") else page.parent
        if not parts.scheme and not (folder / unquote(parts.path).lstrip("/")).exists():
            yield f"{page.relative_to(site)}: {target}"
