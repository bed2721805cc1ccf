"""Describes what to explore, as requested and passed between processes. Imports nothing of the protocol, whose limits
the other process changes before it imports it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from fedap_core.errors import InvalidInput

MODES = ("barrier", "continuous")
MOST_MEMBERS = 5


@dataclass(frozen=True, kw_only=True)
class Scope:
    """minutes: processor time (wall_clock: elapsed time) after which an exploration stops, complete or not. gigabytes:
    memory after which it stops, too. reduces: take one order only of faults that commute with other steps. wander:
    random walks instead of every path."""

    members: int = 2
    rounds: int = 2
    faults: int = 1
    mode: str = "barrier"
    sliced: bool = False
    algorithm: str = "fedavg"
    minutes: float = 60.0
    wall_clock: bool = False
    gigabytes: float = 6.0
    reduces: bool = True
    wander: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("members", self.members, 1, MOST_MEMBERS),
            ("rounds", self.rounds, 1, 10),
            ("faults", self.faults, 0, 10),
        ):
            if not least <= value <= most:
                raise InvalidInput(name, value, f"a number from {least} to {most}")
        if self.mode not in MODES:
            raise InvalidInput("mode", self.mode, f"one of {', '.join(MODES)}")
        for name in ("minutes", "gigabytes"):
            if not getattr(self, name) > 0:
                raise InvalidInput(name, getattr(self, name), "a number above 0")

    @property
    def sentence(self) -> str:
        """The scope in words."""
        size = "payloads in slices" if self.sliced else "small payloads"
        how = "random walks" if self.wander else "every path" if self.reduces else "every path in every order"
        return (
            f"{self.members} members, {self.rounds} rounds, {self.mode}, {self.algorithm}, {size}, "
            f"at most {self.faults} fault{'' if self.faults == 1 else 's'}, {how}"
        )

    def write(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def read(text: str) -> Scope:
        try:
            return Scope(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise InvalidInput("scope", text, "what `fedap-lab explore` hands over", str(error)) from error
