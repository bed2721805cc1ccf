"""SIGKILL of the coordinator and of participants, again and again, with models that travel in slices: the same bits.

Real processes on both sides. Every life of the coordinator dies beside a chosen commit of its journal; meanwhile one
participant after another is killed when it has sent so much. All are started again by the same command.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.cohorts import MODELS, small_run, wait_until
from tests.support.players import Player, final_bits, players, run_reference
from tests.support.processes import ServeProcess
from tests.support.run_files import coordinator_file, participant_file

DEADLINE_S = 400.0
MORTAL = "tests.support.mortal_coordinator"
LIVES = {"after": (1, 2, 3, 2, 4, 3, 5), "before": (2, 4, 3, 6, 5)}
"""Commits that the lives of the coordinator are given, one after the other; the last life is not killed."""

KILLED_AT = (2, 5, 9)
"""Messages in a participant's record of what it sent, at which it is killed: on its way in, in the middle, late."""


def messages_sent(player: Player) -> int:
    path = player.state / "sent.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


class Undertaker:
    """Kills and revives: looks at everybody once per call."""

    def __init__(self, folder: Path, config: Path, when: str, made: dict[str, Player], first: ServeProcess) -> None:
        self._folder, self._config, self._when, self._made = folder, config, when, made
        self._left = list(LIVES[when][1:])
        self._kills = dict(zip(made, KILLED_AT, strict=True))
        self.coordinator = first
        self.kills = 0

    def look(self) -> bool:
        """Whether everybody, the coordinator too, has ended by itself."""
        for name, player in self._made.items():
            if player.ended() is None and messages_sent(player) >= self._kills.get(name, 10**9):
                del self._kills[name]
                player.kill()
                self.kills += 1
            if player.ended() == -signal.SIGKILL:
                player.start()
        if self.coordinator.child.poll() == -signal.SIGKILL:
            self.coordinator.wait()
            self.kills += 1
            self.coordinator = self._next()
        codes = [player.ended() for player in self._made.values()]
        return self.coordinator.child.poll() is not None and all(code is not None for code in codes)

    def _next(self) -> ServeProcess:
        log = self._folder / "coordinator.log"
        number = self._left.pop(0) if self._left else 10**6
        return ServeProcess(str(self._config), self._when, str(number), module=MORTAL, log=log)


@pytest.mark.slow
@pytest.mark.parametrize(("travels", "encoding"), [*((one, "f32") for one in MODELS), ("whole", "coarse")])
@pytest.mark.parametrize("when", [*LIVES])
def test_whoever_is_killed_the_run_ends_with_the_same_bits(
    tmp_path: Path, travels: str, encoding: str, when: str
) -> None:
    settings = small_run("fedap", model=MODELS[travels], encoding=encoding)
    reference = run_reference(tmp_path / "inline", settings)
    endpoint = f"ipc://{tmp_path}/socket"
    pace = {"quorum": len(reference.names), "dead_after_s": 60.0}
    config = coordinator_file(tmp_path, reference, pace=pace, network={"endpoint": endpoint}, encoding=encoding)
    first = ServeProcess(str(config), when, str(LIVES[when][0]), module=MORTAL, log=tmp_path / "coordinator.log")
    patience = ("--config", str(participant_file(tmp_path)))
    undertaker: Undertaker | None = None
    try:
        with players(tmp_path, reference, endpoint, *patience) as made:
            undertaker = Undertaker(tmp_path, config, when, made, first)
            wait_until(undertaker.look, "everybody's end", deadline_s=DEADLINE_S)
            assert {name: one.ended() for name, one in made.items()} == dict.fromkeys(made, 0)
            assert undertaker.coordinator.child.poll() == 0
    finally:
        (undertaker.coordinator if undertaker is not None else first).close()
    assert undertaker.kills >= len(KILLED_AT) + 3
    assert final_bits(made) == reference.bits
