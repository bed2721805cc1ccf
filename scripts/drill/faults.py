"""Describes faults of a federation as data: who, when, how long.

Times (`at`) are fractions of the undisturbed run's duration, places on a line (`share`) are fractions of the bytes that
the member's line carried in it: a plan of faults is the same on every machine and for every model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Kill:
    """SIGKILL; the same command is started again after `pause_s`."""

    party: str
    at: float
    pause_s: float


@dataclass(frozen=True, kw_only=True)
class Die:
    """SIGKILL at a step of the party's own record: one for each of its processes, in order.

    A coordinator's steps are the appends to its journal and what it writes beside it; a participant's are the files
    that it opens for writing, renames or removes in its state. when: before the step, or right after it (an append).
    """

    party: str
    step: int
    when: Literal["before", "after"]
    pause_s: float


@dataclass(frozen=True, kw_only=True)
class Freeze:
    """SIGSTOP, and SIGCONT after `for_s`."""

    party: str
    at: float
    for_s: float


@dataclass(frozen=True, kw_only=True)
class Break:
    """A fault of a member's line once `share` of the usual bytes have passed since its last break.

    cut: every connection closes. half-open: connections stay open and deliver nothing more, and so do the next
    `newcomers`. stall: nothing passes for `for_s`, then everything does. twin: every connection closes, and what is
    sent on the next `newcomers` reaches the coordinator twice, on two connections.
    """

    member: str
    how: Literal["cut", "half-open", "stall", "twin"]
    share: float
    for_s: float = 0.0
    newcomers: int = 0


@dataclass(frozen=True, kw_only=True)
class Slow:
    """Every piece that passes a member's line waits up to `delay_s`; how long is drawn from `seed`."""

    member: str
    delay_s: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Fill:
    """A party's disk is full from `at` on, and has room again after `for_s`."""

    party: str
    at: float
    for_s: float


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attacker is active from the beginning: `name` is its kind, its actions follow from `seed`."""

    name: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Damage:
    """A party is killed at `at`, a file of its folder damaged, and the party started again.

    If it then refuses to start, as it should if the file is needed, its operator follows the advice: `recover` for a
    coordinator, joining again without the run's state for a participant. place: the journal, or a tensor beside it; a
    file of a participant's state. how: one bit flipped, the end cut off, deleted. seed: decides which file.
    """

    party: str
    at: float
    pause_s: float
    place: Literal["journal", "blob", "state"]
    how: Literal["flip", "cut", "delete"]
    seed: int


@dataclass(frozen=True, kw_only=True)
class NetworkConditions:
    """Conditions for a party's packets during the whole run, in a network of its own."""

    party: str
    rate_mbit: float
    delay_ms: float = 0.0
    loss_percent: float = 0.0
    reorder_percent: float = 0.0

    @property
    def needs_netem(self) -> bool:
        return bool(self.delay_ms or self.loss_percent or self.reorder_percent)


@dataclass(frozen=True, kw_only=True)
class Unplug:
    """A party's cable is unplugged from `at` on for `for_s`: its packets vanish, and no connection is notified."""

    party: str
    at: float
    for_s: float


Fault = Kill | Die | Freeze | Break | Slow | Fill | Damage | NetworkConditions | Unplug | Attack


def to_json(fault: Fault) -> dict[str, object]:
    """Convert a fault for readers of a record."""
    return {"fault": type(fault).__name__.lower(), **asdict(fault)}
