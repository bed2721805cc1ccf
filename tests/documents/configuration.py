"""The tables of the configuration page, made from the settings themselves: `python -m tests.documents.configuration`
writes them into the page."""

from __future__ import annotations

from coordinator import cli as coordinator
from coordinator.config import RunConfig
from participant import commands as participant
from participant.config import JoinSettings
from protocol.host.command import flags_of
from protocol.host.settings import reference_table
from tests.architecture.sources import ROOT

PAGE = ROOT / "docs/configuration.md"


def with_tables(page: str) -> str:
    """The page with both tables as they are now."""
    tables = {
        "coordinator": reference_table(RunConfig, flags_of(RunConfig, coordinator.SHORT)),
        "participant": reference_table(JoinSettings, flags_of(JoinSettings, participant.SHORT)),
    }
    for name, table in tables.items():
        before, begin, rest = page.partition(f"<!-- {name}: begin -->\n")
        _, end, after = rest.partition(f"<!-- {name}: end -->")
        page = before + begin + table + end + after
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
