"""Which files of the repository's root become pages of the site, so that no text exists twice.

Links inside them count from the repository; here they are turned into links between pages. A link that no page has,
such as one to a source file, becomes plain text. State diagrams become tables: drawing them takes a script from another
host. Algorithms that «How FedAP works» does not explain are listed there from the code.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from fedap_core.strategies import STRATEGIES

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "protocol/SPEC.md": "protocol.md",
}
_DIAGRAM = re.compile(r"```mermaid\nstateDiagram-v2\n(.*?)```", re.DOTALL)
_ARROW = re.compile(r"(\S+) --> (\S+?)(?:: (.+))?$", re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are kept elsewhere."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=as_page(source, text)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep the tables of single targets out of the search, as they hold every client; list algorithms; turn links to
    root files, which count from the page, into links between pages."""
    del config, files
    if page.file.src_uri.startswith("results/") and page.file.name != "index":
        page.meta["search"] = {"exclude": True}
    for source, name in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}")
    return markdown.replace("<!-- algorithms -->", algorithms(markdown))


def algorithms(markdown: str) -> str:
    """A table of the algorithms that the page's own table does not have: name, paper and the first line of the file."""
    rows = []
    for name, kind in STRATEGIES.items():
        if f"| `{name}` |" not in markdown:
            told = (sys.modules[kind.__module__].__doc__ or "").partition("\n")[0]
            rows.append(f"| `{name}` | {f'[{kind.label}]({kind.paper})' if kind.paper else kind.label} | {told} |")
    return (
        "\n".join(["Further algorithms:", "", "| name | paper | what it does |", "|---|---|---|", *rows])
        if rows
        else ""
    )


def as_page(source: str, text: str) -> str:
    """The text of a root file with its links as the site needs them."""

    def link(found: re.Match[str]) -> str:
        mark, words, path, fragment = found[1], found[2], found[3], found[4] or ""
        if not path:
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if target in PAGES:
            return f"{mark}[{words}]({PAGES[target]}{fragment})"
        if target.startswith("docs/") and (ROOT / target).is_file():
            return f"{mark}[{words}]({target.removeprefix('docs/')}{fragment})"
        return words

    return _LINK.sub(link, _DIAGRAM.sub(_as_table, text))


def _as_table(diagram: re.Match[str]) -> str:
    """The arrows of a state diagram, one row each; [*] is the beginning and the end."""
    rows = [f"| {before} | {cause} | {after} |" for before, after, cause in _ARROW.findall(diagram[1])]
    return "\n".join(["| from | by | to |", "|---|---|---|", *rows]).replace("[*]", "–") + "\n"
