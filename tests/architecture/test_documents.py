"""What the documents and the build file promise: shown commands exist, the wheel holds the packages, dependencies
are declared, and the text speaks of the project alone."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement

from tests.architecture.commands import CommandTree, command_faults, shown_commands
from tests.architecture.imports import imports_of
from tests.architecture.sources import PACKAGES, ROOT, sources_of_packages, text_files
from tests.architecture.words import METAPHOR, REGISTRY_HOST, SELF_TALK, forbidden_words

BUILD: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMMANDS: dict[str, str] = BUILD["project"]["scripts"]
EXTRAS: dict[str, list[str]] = BUILD["project"]["optional-dependencies"]
DECLARED = [*BUILD["project"]["dependencies"]]
DECLARED += [one for extra in EXTRAS.keys() - {"docs", "test"} for one in EXTRAS[extra]]
REQUIREMENTS = {requirement.name: requirement for requirement in map(Requirement, DECLARED)}
DISTRIBUTIONS = {
    "dp_accounting": "dp-accounting",
    "PIL": "pillow",
    "zmq": "pyzmq",
    "prometheus_client": "prometheus-client",
    "mlflow": "mlflow-skinny",
}
"""Import names that differ from the name of the distribution."""
APPS = {"fedap-coordinator": "coordinator.cli", "fedap-participant": "participant.cli", "fedap-lab": "scripts.lab"}
"""Where the options of each console command are."""


def tree_of(command: Any) -> CommandTree:  # noqa: ANN401  (a click command, which typer carries inside itself)
    """The flags and sub-commands of a command that typer has built."""
    flags = frozenset(flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts))
    valued = frozenset(
        flag
        for parameter in command.params
        for flag in parameter.opts
        if not (getattr(parameter, "is_flag", False) or getattr(parameter, "count", False))
    )
    children = getattr(command, "commands", {})
    return CommandTree(flags=flags, valued=valued, children={name: tree_of(child) for name, child in children.items()})


def built_trees() -> dict[str, CommandTree]:
    """The trees of the console commands."""
    modules = {name: importlib.import_module(APPS[name]) for name in COMMANDS}
    return {name: tree_of(typer.main.get_command(module.app)) for name, module in modules.items()}


DOCUMENTS = ("README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_and_flag_that_the_document_shows_exists(document: str) -> None:
    commands = list(shown_commands((ROOT / document).read_text(encoding="utf-8")))
    trees = built_trees()
    faults = [
        fault
        for words in commands
        for fault in command_faults(words, trees=trees, file_exists=lambda name: (ROOT / name).is_file())
    ]
    assert faults == []


@pytest.mark.parametrize("command", COMMANDS)
def test_console_command_leads_to_a_function(command: str) -> None:
    module, _, function = COMMANDS[command].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_command_that_the_demo_script_runs_exists() -> None:
    assert 'fedap-lab" demo "$@"' in (ROOT / "scripts/demo.sh").read_text(encoding="utf-8")
    assert "demo" in built_trees()["fedap-lab"].children


def test_wheel_holds_exactly_the_five_packages() -> None:
    """The build file's patterns, applied as setuptools applies them to the dotted names of all folders with code."""
    found = BUILD["tool"]["setuptools"]["packages"]["find"]
    tops = [top for top in ROOT.iterdir() if top.is_dir() and not top.name.startswith(".")]
    names = {".".join(path.parent.relative_to(ROOT).parts) for top in tops for path in top.rglob("*.py")}
    packed = {name for name in names if any(fnmatch(name, pattern) for pattern in found["include"])}
    assert {name.partition(".")[0] for name in packed} == set(PACKAGES)
    assert {name for name in names if name.partition(".")[0] in PACKAGES} == packed


def test_every_folder_with_code_is_a_package() -> None:
    folders = {(ROOT / source.path).parent for source in sources_of_packages()}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_every_package_tells_type_checkers_that_it_is_typed() -> None:
    assert [package for package in PACKAGES if not (ROOT / package / "py.typed").exists()] == []


def test_every_imported_library_is_declared() -> None:
    tops = {found.top for source in sources_of_packages() for found in imports_of(source)}
    outside = tops - set(sys.stdlib_module_names) - set(PACKAGES)
    assert {DISTRIBUTIONS.get(name, name) for name in outside} <= REQUIREMENTS.keys()


def test_torch_is_held_below_2_14() -> None:
    torch = REQUIREMENTS["torch"].specifier
    assert torch.contains("2.13.0")
    assert not torch.contains("2.14.0")


@pytest.mark.parametrize("pattern", [REGISTRY_HOST, SELF_TALK], ids=["registry host", "self talk"])
def test_no_file_says(pattern: Any) -> None:  # noqa: ANN401
    assert [fault for path, text in text_files() for fault in forbidden_words(path, text, pattern)] == []


def help_texts(command: Any) -> Iterator[str]:  # noqa: ANN401  (a click command)
    """What a command, its parameters and its sub-commands print about themselves."""
    yield command.help or ""
    yield from (getattr(parameter, "help", None) or "" for parameter in command.params)
    for child in getattr(command, "commands", {}).values():
        yield from help_texts(child)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_plain_technical_english(command: str) -> None:
    module = importlib.import_module(APPS[command])
    texts = list(help_texts(typer.main.get_command(module.app)))
    assert len(texts) > 10
    assert [fault for text in texts for fault in forbidden_words(text, text, METAPHOR)] == []


TREES = {
    "fedap-lab": CommandTree(
        flags=frozenset({"--version", "--log"}),
        valued=frozenset({"--log"}),
        children={"demo": CommandTree(flags=frozenset({"--rounds", "-r"}), children={})},
    )
}


@pytest.mark.parametrize(
    ("block", "faults"),
    [
        ("fedap-lab demo --rounds 3", 0),
        ("$ FEDAP_DATA=x fedap-lab demo \\\n  --rounds=3 -r 2 --help # --nothing", 0),
        ("cd x && .venv/bin/fedap-lab --version | tee -a log", 0),
        ("fedap-lab --log debug demo -3", 0),
        ("fedap-lab --log debug dmeo", 1),
        ("fedap-lab demo --round 3", 1),
        ("fedap-lab dmeo", 1),
        ("fedap-lob demo", 1),
        ("true; fedap-lab --rounds 3 demo", 1),
        ("./scripts/gone.sh", 1),
        ("./scripts/there.sh", 0),
    ],
)
def test_shown_command_that_does_not_exist_is_found(block: str, faults: int) -> None:
    commands = list(shown_commands(f"text\n```bash\n{block}\n```\n```python\nfedap-lab none\n```\n"))
    found = [command_faults(words, trees=TREES, file_exists=lambda name: "there" in name) for words in commands]
    assert sum(map(len, found)) == faults
