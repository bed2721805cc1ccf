"""Every algorithm, model, data source and engine that has a file is in its table, so that a user can name it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.architecture.checks import unregistered
from tests.architecture.sources import python_sources


@dataclass(frozen=True, kw_only=True)
class Table:
    """A folder whose files are registered in one dict; `support` are the files that are no entries."""

    folder: str
    name: str
    support: frozenset[str]

    @property
    def package(self) -> str:
        return self.folder.replace("/", ".")


TABLES = (  # of the data folder, the second set is reached by what the user names (a path, a factory), not by a table
    Table(folder="fedap_core/strategies", name="STRATEGIES", support=frozenset({"base"})),
    Table(folder="fedap_core/models", name="MODELS", support=frozenset({"request"})),
    Table(
        folder="participant/data",
        name="SOURCES",
        support=frozenset({"base", "archive", "download", "windows"})
        | {"factory", "npz", "csv_file", "folder", "images", "shard"},
    ),
    Table(folder="coordinator/observers", name="OBSERVERS", support=frozenset()),
    Table(folder="scripts/engines", name="ENGINES", support=frozenset({"base"})),
)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_file_of_the_folder_is_registered(table: Table) -> None:
    sources = {source.path: source for source in python_sources(table.folder)}
    register = sources.get(f"{table.folder}/__init__.py")
    if register is None or not any(line.startswith(table.name) for line in register.text.splitlines()):
        pytest.skip(f"{table.folder} has no table {table.name} yet")
    files = [path.removeprefix(f"{table.folder}/").removesuffix(".py") for path in sources]
    entries = [name for name in files if name != "__init__" and name not in table.support]
    assert unregistered(register.text, table.name, table.package, entries) == []
