"""Every algorithm, model, data source and engine that has a file is in its table, so that a user can name it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.architecture.checks import unregistered
from tests.architecture.sources import python_sources


@dataclass(frozen=True, kw_only=True)
class RegistryTable:
    """A folder whose files are registered in one dict; `support` are the files that are no entries."""

    folder: str
    name: str
    support: frozenset[str]

    @property
    def package(self) -> str:
        return self.folder.replace("/", ".")


TABLES = (  # of the data folder, the second set is reached by what the user names (a path, a factory), not by a table
    RegistryTable(folder="fedap_core/strategies", name="STRATEGIES", support=frozenset({"base"})),
    RegistryTable(folder="fedap_core/models", name="MODELS", support=frozenset({"request", "monai_nets"})),
    RegistryTable(
        folder="participant/data",
        name="SOURCES",
        support=frozenset({"base", "archive", "download", "table", "windows"})
        | {
            "factory",
            "npz",
            "csv_file",
            "folder",
            "images",
            "shard",
            "files",
            "dicom",
            "nifti",
            "windowing",
            "formats",
        },
    ),
    RegistryTable(folder="coordinator/observers", name="OBSERVERS", support=frozenset()),
    RegistryTable(  # the virtual clock's own settings are no run's: it is not named by a user
        folder="scripts/engines",
        name="ENGINES",
        support=frozenset(
            {
                "base",
                "pool",
                "forked_pool",
                "sealed_rows",
                "transport",
                "sampling",
                "workbench",
                "opening",
                "stored_pool",
                "tables",
            }
        )
        | {"continuous", "virtual_members"},
    ),
)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_file_of_the_folder_is_registered(table: RegistryTable) -> None:
    sources = {source.path: source for source in python_sources(table.folder)}
    register = sources[f"{table.folder}/__init__.py"]
    files = {path.removeprefix(f"{table.folder}/").partition("/")[0].removesuffix(".py") for path in sources}
    entries = sorted(files - table.support - {"__init__"})  # a package is one entry
    assert unregistered(register.text, table.name, table.package, entries) == []
