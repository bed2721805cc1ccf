"""The interface for observers of a run: log lines, notices, and users' own (a page, metrics, an experiment tracker).

An observer gets facts after they are durable and cannot change the run; if it raises, the error is logged once and the
observer is dropped. `OBSERVERS` lists the built-in ones; an operator adds others with `--observer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import structlog

from coordinator.decisions.actions import Note
from coordinator.decisions.facts import Fact
from coordinator.decisions.state import State
from fedap_core.errors import InvalidInput
from fedap_core.factories import find_factory, users_code

if TYPE_CHECKING:
    from coordinator.config import RunConfig

log = structlog.get_logger()


class Observer:
    """Base class of observers. Override what you need; all methods run on the coordinator's thread and must return
    quickly."""

    def on_fact(self, fact: Fact, time_s: float, state: State) -> None:
        """A fact is durable. time_s: on the run clock; state: after all facts of the same step; do not change it."""

    def on_note(self, note: Note) -> None:
        """The machine reports something that is not journalled."""

    def on_notice(self, subject: str, sentence: str) -> None:
        """A notice to the operator about a subject; an empty sentence: the notice no longer applies."""

    def on_pulse(self, time_s: float, received_at: Mapping[str, float]) -> None:
        """Called about every second while messages arrive. heard: time of each member's last message (run clock)."""

    def close(self) -> None:
        """The run has ended, or its process is stopping."""


OBSERVERS: Mapping[str, str] = {
    "log": "coordinator.observers.log_lines:LogLines",
    "notices": "coordinator.observers.notice_file:NoticeFile",
    "pulse": "coordinator.observers.pulse_file:PulseFile",
    "tracking": "coordinator.observers.tracking:Tracking",
}
"""Observers by name, each as `module:factory`. A factory takes the run's configuration and returns an Observer."""

ALWAYS = ("log", "notices", "pulse")


def make_observers(config: RunConfig) -> list[Observer]:
    """Create the observers of a run: the standard ones, then those that the operator names."""
    trackers = ("tracking",) if config.track else ()
    return [_made(name, config) for name in (*ALWAYS, *trackers, *config.observers)]


def _made(name: str, config: RunConfig) -> Observer:
    if name not in OBSERVERS and ":" not in name:
        expected = f"{', '.join(OBSERVERS)} or package.module:factory"
        raise InvalidInput("observers", name, expected, "Name your own as package.module:factory.")
    factory = find_factory("observers", OBSERVERS.get(name, name))
    with users_code("observers", name, "a factory that takes the run's configuration"):
        found = factory(config)
    if not isinstance(found, Observer):
        raise InvalidInput("observers", name, "a factory that returns a coordinator.observers.Observer")
    return found


class Observers:
    """All observers of one run, called by the shell."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = list(observers)
        self._notices: dict[str, str] = {}

    def on_facts(self, facts: Iterable[tuple[Fact, float]], state: State) -> None:
        """Pass on the facts of one step, each with its time."""
        for fact, time_s in facts:
            self._call("on_fact", fact, time_s, state)

    def on_note(self, note: Note) -> None:
        self._call("on_note", note)

    def on_notice(self, subject: str, sentence: str) -> None:
        """Pass on a notice if it changed; the shell repeats current notices."""
        if self._notices.get(subject, "") != sentence:
            self._notices[subject] = sentence
            self._call("on_notice", subject, sentence)

    def on_pulse(self, time_s: float, received_at: Mapping[str, float]) -> None:
        self._call("on_pulse", time_s, received_at)

    def close(self) -> None:
        self._call("close")

    def _call(self, method: str, *values: object) -> None:
        for one in tuple(self._observers):
            try:
                getattr(one, method)(*values)
            except Exception as error:  # no error of an observer may end the run
                self._observers.remove(one)
                log.error("observer.dropped", observer=type(one).__name__, exc_info=error, effect="the run continues")
