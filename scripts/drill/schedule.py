"""Decides the faults of a drill: a pure function of its seed and kind.

`KINDS` is the table. The timing of processes depends on the machine; the faults, and after which fraction of the run
they occur, do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedap_core.randomness import generator
from scripts.drill.faults import Attack, Break, Damage, Die, Fault, Fill, Freeze, Kill, NetworkConditions, Slow, Unplug
from scripts.drill.spec import COORDINATOR, MEMBERS, PARTIES, Drill

Rng = np.random.Generator
LONGEST_PAUSE_S = 0.8
"""Before a killed party is restarted: too short to count as an absence, long enough to be noticed."""
LAST_MOMENT = 1.05
"""Kills may come a little after the usual end, so that the end of a run is tested too."""
LAST_STEP = 44
"""Steps of a party's record in an undisturbed run of four rounds, so that kills occur in every round."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of drill. about: one line for users. make: makes its faults."""

    about: str
    make: Callable[[Drill, Rng], list[Fault]]
    uses_proxy: bool = False
    uses_small_disks: bool = False
    uses_namespaces: bool = False
    uses_netem: bool = False
    uses_hostile_member: bool = False
    deadline_s: float | None = None
    """How long a round waits for a member that is present but reports nothing; None: without limit."""
    same_bits: bool = True
    """Whether the undisturbed run's models are expected: not if another member's statistics count for a while."""


def faults_of(drill: Drill) -> tuple[Fault, ...]:
    """Return all faults of a drill."""
    rng = generator(drill.seed, purpose=f"drill {drill.kind}")
    return tuple(KINDS[drill.kind].make(drill, rng))


def _party(rng: Rng) -> str:
    """Draw a party; the coordinator half of the time, because it has the most to lose."""
    return COORDINATOR if rng.random() < 0.5 else str(rng.choice(MEMBERS))


def _kills(_drill: Drill, rng: Rng) -> list[Fault]:
    moments = np.sort(rng.uniform(0.02, LAST_MOMENT, int(rng.integers(1, 5))))
    return [
        Kill(party=_party(rng), at=float(at), pause_s=float(rng.uniform(0.0, LONGEST_PAUSE_S)))
        for at in moments
    ]  # fmt: skip


def _deaths(_drill: Drill, rng: Rng) -> list[Fault]:
    """Kill one or two parties in several consecutive processes; more often at early steps, since fewer remain later."""
    victims = [_party(rng)]
    if rng.random() < 0.4:
        victims.append(str(rng.choice([party for party in PARTIES if party not in victims])))
    found: list[Fault] = []
    for victim in victims:
        for _ in range(int(rng.integers(1, 5))):
            after = victim == COORDINATOR and rng.random() < 0.5
            found.append(
                Die(
                    party=victim,
                    step=int(rng.integers(1, rng.integers(1, LAST_STEP + 1), endpoint=True)),
                    when="after" if after else "before",
                    pause_s=float(rng.uniform(0.0, LONGEST_PAUSE_S)),
                )
            )
    return found


def _freezes(_drill: Drill, rng: Rng) -> list[Fault]:
    return [
        Freeze(party=_party(rng), at=float(rng.uniform(0.02, 0.95)), for_s=float(rng.uniform(0.1, 3.0)))
        for _ in range(int(rng.integers(1, 4)))
    ]


def _cuts(_drill: Drill, rng: Rng) -> list[Fault]:
    """Cut mostly in the middle of something large, sometimes within the first bytes of a connection."""
    found: list[Fault] = []
    for member in MEMBERS:
        for _ in range(int(rng.integers(0, 4))):
            share = 10.0 ** rng.uniform(-4.0, -2.0) if rng.random() < 0.25 else rng.uniform(0.01, 0.4)
            found.append(Break(member=member, how="cut", share=float(share)))
    return found or [Break(member=MEMBERS[0], how="cut", share=0.5)]


def _stalls(_drill: Drill, rng: Rng) -> list[Fault]:
    return [
        Break(member=member, how="stall", share=float(rng.uniform(0.0, 0.8)), for_s=float(rng.uniform(0.2, 4.0)))
        for member in MEMBERS
        if rng.random() < 0.7 or member == MEMBERS[0]
    ]


def _half_open(_drill: Drill, rng: Rng) -> list[Fault]:
    return [
        Break(
            member=member,
            how="half-open",
            share=float(rng.uniform(0.0, 0.8)),
            newcomers=int(rng.integers(0, 2)),
        )
        for member in MEMBERS
        if rng.random() < 0.6 or member == MEMBERS[0]
    ]


def _slow(drill: Drill, rng: Rng) -> list[Fault]:
    """Delay every piece; one is at most 64 KiB, so a large model is delayed some hundred times."""
    return _slow_lines(0.004 if drill.model_bytes > 1 << 20 else 0.15, rng)


def _narrow(drill: Drill, rng: Rng) -> list[Fault]:
    """Make a slice of a large model take about two seconds, longer than the silence first allowed on a line."""
    return _slow_lines(0.07 if drill.model_bytes > 1 << 20 else 1.0, rng, least=0.8)


def _slow_lines(most_s: float, rng: Rng, *, least: float = 0.1) -> list[Fault]:
    return [
        Slow(member=member, delay_s=float(rng.uniform(least, 1.0)) * most_s, seed=int(rng.integers(1 << 31)))
        for member in MEMBERS
    ]


def _twins(_drill: Drill, rng: Rng) -> list[Fault]:
    return [
        Break(
            member=member,
            how="twin",
            share=float(rng.choice([0.0, rng.uniform(0.0, 0.7)])),
            newcomers=int(rng.integers(1, 4)),
        )
        for member in MEMBERS
    ]


def _mixed(drill: Drill, rng: Rng) -> list[Fault]:
    """Combine kills with two other kinds."""
    others = [_cuts, _stalls, _half_open, _slow, _freezes, _twins]
    chosen = rng.choice(len(others), size=2, replace=False)
    found = _kills(drill, rng)[:2]
    for number in chosen:
        found += others[int(number)](drill, rng)
    return found


def _full_disks(_drill: Drill, rng: Rng) -> list[Fault]:
    return [
        Fill(party=_party(rng), at=float(rng.uniform(0.05, 0.9)), for_s=float(rng.uniform(0.3, 2.5)))
        for _ in range(int(rng.integers(1, 3)))
    ]


def _damaged(place: Literal["blob", "journal", "state"], rng: Rng, party: str = COORDINATOR) -> list[Fault]:
    return [
        Damage(
            party=party,
            at=float(rng.uniform(0.2, 0.95)),
            pause_s=float(rng.uniform(0.0, LONGEST_PAUSE_S)),
            place=place,
            how=("flip", "cut", "delete")[int(rng.integers(3))],
            seed=int(rng.integers(1 << 31)),
        )
    ]


def _unplugged(_drill: Drill, rng: Rng) -> list[Fault]:
    return [
        Unplug(party=_party(rng), at=float(rng.uniform(0.02, 0.95)), for_s=float(rng.uniform(0.2, 4.0)))
        for _ in range(int(rng.integers(1, 4)))
    ]


def _usual_mbit(drill: Drill) -> float:
    """Return a rate at which the undisturbed run's bytes take a few seconds on every line."""
    return max(4.0, drill.model_bytes * 8.0 / 1e6 * 3.0)


def _thin_lines(drill: Drill, rng: Rng) -> list[Fault]:
    usual = _usual_mbit(drill)
    return [NetworkConditions(party=party, rate_mbit=float(usual * rng.uniform(0.5, 3.0))) for party in PARTIES]


def _weather(drill: Drill, rng: Rng) -> list[Fault]:
    usual = _usual_mbit(drill)
    return [
        NetworkConditions(
            party=member,
            rate_mbit=float(usual * rng.uniform(0.5, 3.0)),
            delay_ms=float(rng.uniform(1.0, 40.0)),
            loss_percent=float(rng.uniform(0.0, 2.0)),
            reorder_percent=float(rng.uniform(0.0, 20.0)),
        )
        for member in MEMBERS
    ]


def _attack(name: str) -> Callable[[Drill, Rng], list[Fault]]:
    return lambda _drill, rng: [Attack(name=name, seed=int(rng.integers(1 << 31)))]


KINDS: dict[str, Kind] = {
    "kill": Kind(about="SIGKILL of any party at any moment, started again", make=_kills),
    "step": Kind(about="SIGKILL right before or after a chosen write of a party, several times in a row", make=_deaths),
    "cut": Kind(about="connections that break in the middle of anything", make=_cuts, uses_proxy=True),
    "freeze": Kind(about="SIGSTOP and SIGCONT of any party", make=_freezes),
    "half-open": Kind(about="connections that stay open and deliver nothing", make=_half_open, uses_proxy=True),
    "stall": Kind(about="connections that hold everything back and deliver it late", make=_stalls, uses_proxy=True),
    "delay": Kind(about="connections that delay every chunk by a varying time", make=_slow, uses_proxy=True),
    "twin": Kind(about="connections whose bytes reach the coordinator twice", make=_twins, uses_proxy=True),
    "mixed": Kind(about="kills together with two other kinds", make=_mixed, uses_proxy=True),
}

KINDS |= {
    "disk": Kind(about="full disks, of any party, that have room again later", make=_full_disks, uses_small_disks=True),
    "damage": Kind(
        about="damaged files of the run: the coordinator must stop, and go on after `recover`",
        make=lambda _drill, rng: _damaged("blob", rng),
    ),
    "state": Kind(
        about="damaged files of a participant: it must say which, and go on after it has joined again",
        make=lambda _drill, rng: _damaged("state", rng, str(rng.choice(MEMBERS))),
    ),
    "cable": Kind(
        about="network interfaces that are disconnected and reconnected", make=_unplugged, uses_namespaces=True
    ),
    "rate": Kind(about="low bandwidth, a different rate for each party", make=_thin_lines, uses_namespaces=True),
    "weather": Kind(
        about="loss, delay, reordering and rates, packet by packet",
        make=_weather,
        uses_namespaces=True,
        uses_netem=True,
    ),
}

DISTURBANCES = tuple(KINDS)
"""Faults of networks, machines and operators."""

KINDS["narrow"] = Kind(
    about="lines on which one slice takes longer than the silence that a participant allows at first",
    make=_narrow,
    uses_proxy=True,
)

KINDS["journal"] = Kind(
    about="a damaged journal: stop, `recover --accept-older`, and go on from what members hold",
    make=lambda _drill, rng: _damaged("journal", rng),
)

_FLOODS = {
    "fill-and-reset": "a stranger fills the coordinator's queue and resets the connection",
    "ping-and-reset": "the same with ZMTP's PING commands in between",
    "endless-multipart": "a stranger sends one message whose frames never end",
    "tiny-frames": "the same with empty frames",
    "garbage": "a stranger sends random messages",
    "reconnecting": "a stranger sends a few faulty messages on ever new connections",
    "broken-handshake": "a stranger breaks off handshakes in every way",
    "mutants": "a stranger sends real messages with bits changed",
    "hellos": "a stranger says hello under every name on ever new connections",
}

KINDS |= {f"flood-{name}": Kind(about=about, make=_attack(name)) for name, about in _FLOODS.items()}

FLOODS = tuple(f"flood-{name}" for name in _FLOODS)
"""Hostile traffic, for as long as the run lasts."""

_MEMBERS = {
    "values": "a fourth member reports values that are huge or not finite until it is excluded",
    "statistics": "a fourth member reports absurd statistics until it is excluded",
    "counts": "a fourth member claims more samples than anybody may have",
    "alternating": "a fourth member comes again with another sample count after every report",
    "rounds": "a fourth member reports only rounds that it was not asked for; rounds have a deadline",
}

KINDS |= {
    f"member-{name}": Kind(
        about=about,
        make=_attack(name),
        uses_hostile_member=True,
        same_bits=name in ("statistics", "counts"),
        deadline_s=5.0 if name == "rounds" else None,
    )
    for name, about in _MEMBERS.items()
}
KINDS["flood-keyed-garbage"] = Kind(
    about="somebody with a listed key sends random messages; without CURVE, under a listed name",
    make=_attack("keyed-garbage"),
    uses_hostile_member=True,
)

HOSTILE_MEMBERS = (*(f"member-{name}" for name in _MEMBERS), "flood-keyed-garbage")
"""Attacks by a listed member."""

KINDS["hostile-coordinator"] = Kind(
    about="participants meet a coordinator that means harm: scenarios of the published list",
    make=lambda _drill, _rng: [],
)
"""`hostile_coordinator_drills` chooses its scenarios. It has no model size and no keys, so it is not in the default."""

DEFAULT_KINDS = (*DISTURBANCES, *FLOODS, *HOSTILE_MEMBERS)

SEALED_KINDS = (*DISTURBANCES, *FLOODS, "flood-keyed-garbage")
"""Kinds for sealed runs: without those that forge a member's values or need a participant without a key."""
