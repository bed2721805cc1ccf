"""Claims about a run whose first lines cannot be written: one sentence, and the same command works later."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.config import make_config
from coordinator.record.journal import JOURNAL, NotWritten, SqliteJournal
from coordinator.runs import open_run
from fedap_core.errors import InvalidInput
from tests.support.federation import close_federation, fields
from tests.support.tiny_models import tiny_model


class FillingJournal(SqliteJournal):
    """Its disk is full after so many lines about the run."""

    def __init__(self, path: Path, room: int) -> None:
        self.room = room + 1  # the format of a new journal
        super().__init__(path)

    def set_metadata(self, name: str, value: str) -> None:
        self.room -= 1
        if self.room < 0:
            raise NotWritten("database or disk is full")
        super().set_metadata(name, value)


@pytest.mark.parametrize("room", range(6))
def test_a_run_that_a_full_disk_did_not_let_begin_begins_when_there_is_room(room: int, tmp_path: Path) -> None:
    """Six lines: configuration, two models, name, layout, plan."""
    network = {"endpoint": "tcp://127.0.0.1:*"}
    settings = fields(tmp_path / "run", tiny_model().write(tmp_path / "initial.safetensors"), network=network)
    config = make_config(settings)
    with pytest.raises(InvalidInput, match=r"folder: got .* disk is full.* Free some space"):
        open_run(config, open_journal=lambda path: FillingJournal(path, room))
    federation = open_run(config)
    close_federation(federation)
    kept = SqliteJournal(tmp_path / "run" / JOURNAL)
    assert kept.metadata("run") == config.run
    assert kept.metadata("plan") is not None
    kept.close()
