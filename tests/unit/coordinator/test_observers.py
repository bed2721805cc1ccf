"""Claims about observers: they see every fact with its time, failing ones are dropped, operators name their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from coordinator.config import RunConfig, make_config
from coordinator.decisions.actions import Note
from coordinator.decisions.facts import Began, Fact, Finished
from coordinator.decisions.state import State
from coordinator.observers import Observer, Observers, make_observers
from coordinator.observers.notice_file import read_notices
from fedap_core.errors import InvalidInput


class JsonLines(Observer):
    """All that a JSON-lines observer needs."""

    def __init__(self, config: RunConfig) -> None:
        self._file = (config.folder / "facts.jsonl").open("a")

    def on_fact(self, fact: Fact, time_s: float, state: State) -> None:
        self._file.write(json.dumps({"time_s": time_s, "fact": type(fact).__name__, "round": state.round_no}) + "\n")

    def close(self) -> None:
        self._file.close()


class FailingObserver(Observer):
    """Fails at the first fact."""

    def __init__(self) -> None:
        self.calls = 0

    def on_fact(self, fact: Fact, time_s: float, state: State) -> None:
        self.calls += 1
        raise OSError("no space left")


class Seeing(Observer):
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_fact(self, fact: Fact, time_s: float, state: State) -> None:
        self.seen.append((fact, time_s))

    def on_note(self, note: Note) -> None:
        self.seen.append(note.event)

    def on_notice(self, subject: str, sentence: str) -> None:
        self.seen.append((subject, sentence))


def config_in(folder: Path, *observers: str) -> RunConfig:
    fields: dict[str, Any] = {"run": "r", "folder": folder, "initial": folder / "i", "observers": observers}
    return make_config(fields)


BEGAN, FINISHED = Began(run="r"), Finished(reason="rounds", sentence="done")


def test_an_observer_named_by_its_factory_sees_every_fact_with_its_time(tmp_path: Path) -> None:
    config = config_in(tmp_path, "tests.unit.coordinator.test_observers:JsonLines")
    observers = Observers(make_observers(config)[-1:])
    observers.on_facts([(BEGAN, 0.5), (FINISHED, 2.0)], State())
    observers.close()
    lines = [json.loads(line) for line in (tmp_path / "facts.jsonl").read_text().splitlines()]
    assert [(line["fact"], line["time_s"]) for line in lines] == [("Began", 0.5), ("Finished", 2.0)]


def test_an_observer_that_fails_is_logged_once_and_dropped_and_others_continue() -> None:
    failing, seeing = FailingObserver(), Seeing()
    observers = Observers([failing, seeing])
    with structlog.testing.capture_logs() as lines:
        observers.on_facts([(BEGAN, 0.0), (FINISHED, 1.0)], State())
        observers.on_note(Note(event="round.waits"))
    assert seeing.seen == [(BEGAN, 0.0), (FINISHED, 1.0), "round.waits"]
    assert failing.calls == 1
    assert [(line["event"], line["observer"]) for line in lines] == [("observer.dropped", "FailingObserver")]


def test_a_notice_is_passed_on_when_it_changes_and_stands_in_the_file_while_it_holds(tmp_path: Path) -> None:
    seeing = Seeing()
    observers = Observers([*make_observers(config_in(tmp_path)), seeing])
    for sentence in ("", "line 3 is broken", "line 3 is broken"):
        observers.on_notice("members_file", sentence)
    assert read_notices(tmp_path) == ("line 3 is broken",)
    observers.on_notice("members_file", "")
    assert read_notices(tmp_path) == ()
    assert seeing.seen == [("members_file", "line 3 is broken"), ("members_file", "")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jsonl", "package.module:factory"),
        ("no.such.module:make", "importable module"),
        ("builtins:str", "returns a coordinator.observers.Observer"),
        ("tests.unit.coordinator.test_observers:FailingObserver", "takes the run's configuration"),
    ],
)
def test_an_observer_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path, name: str, expected: str) -> None:
    with pytest.raises(InvalidInput, match="observers") as refused:
        make_observers(config_in(tmp_path, name))
    assert expected in str(refused.value)
