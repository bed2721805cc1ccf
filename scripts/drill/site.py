"""Files and settings of a drill's federation: model, keys, configuration; small, fast and tolerant of absences.

No member is ever left out of a round, so that the numbers of a disturbed run are those of the undisturbed one.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from participant.sealing.group_key import make_group_key
from participant.wire.keys import make_keys
from protocol.host.keys import generate_keys, write_key_file
from protocol.plan import PAPER_RECIPE
from scripts.drill.spec import COORDINATOR, MEMBERS, Drill
from scripts.engines.processes.configuring import toml_lines

RUN = "drill"
HEARTBEAT_S = 0.3
ENROLMENT_S = 2.0
"""Gives a guest time to join too."""
GROUP_KEY = "group.key"
GUEST_LINGER_S = 20.0
"""How long the end of a run waits for a guest, which may not return for its model."""
NEVER_S = 3600.0
"""Longer than any drill."""
DATA = {"samples": "96", "classes": "3", "sites": "1", "shape": "1x16"}
_PORTS = (20_000, 32_000)
"""Below the range of ports for outgoing connections."""


def data_options(member: str) -> dict[str, str]:
    """Return options for synthetic samples, different for every member."""
    return {**DATA, "seed": str(1 + MEMBERS.index(member) if member in MEMBERS else 99)}


@dataclass(frozen=True, kw_only=True)
class DrillSite:
    """Files of one federation. address: where its coordinator listens."""

    drill: Drill
    folder: Path
    initial: Path
    address: str
    secure: bool
    homes: dict[str, Path]
    """A party's folder, if it is not below `folder`."""
    guests: tuple[str, ...] = ()
    """Further names on the list of members; the run does not wait for them to join."""
    deadline_s: float | None = None

    def home(self, party: str) -> Path:
        """Return the coordinator's run folder, or a participant's state folder."""
        return self.homes.get(party, self.folder / party)

    def log(self, party: str) -> Path:
        return self.folder / f"{party}.log"

    def has_joined(self, member: str) -> bool:
        """Whether the member was welcomed and has saved that."""
        return (self.home(member) / "state" / "current").exists()

    @property
    def config(self) -> Path:
        return self.folder / "run.toml"

    def write(self) -> None:
        """Write keys and run.toml."""
        network: dict[str, object] = {"endpoint": self.address}
        members: dict[str, object] = {"at_least": len(MEMBERS), "min_samples": 2}
        if self.secure:
            pair = generate_keys()
            write_key_file(self.folder / "coordinator.key", pair)
            (self.folder / "coordinator.public").write_text(pair.public, encoding="utf-8")
            made = {name: make_keys(self.folder / "keys", name) for name in (*MEMBERS, *self.guests)}
            listed = "".join(f"{name} {keys.public}\n" for name, keys in made.items())
            (self.folder / "members.txt").write_text(listed, encoding="utf-8")
            network["secret_key"] = str(self.folder / "coordinator.key")
            members["keys"] = str(self.folder / "members.txt")
        else:
            network["insecure"] = True
            members["names"] = [*MEMBERS, *self.guests]
        if self.guests:
            members["enrolment_s"] = ENROLMENT_S
        fields: dict[str, object] = {
            "run": RUN,
            "folder": str(self.home(COORDINATOR)),
            "initial": str(self.initial),
            "rounds": self.drill.rounds,
            "mode": self.drill.mode,
            "validation": 0.0,
            "encoding": self.drill.encoding,
            "algorithm": {"name": "fedap"},
            "training": {**PAPER_RECIPE, "learning_rate": 0.05, "batch_size": 16},
            "members": members,
            "pace": {
                "heartbeat_s": HEARTBEAT_S,
                "dead_after_s": NEVER_S,
                "quorum": len(MEMBERS),
                "linger_s": NEVER_S if not self.guests else GUEST_LINGER_S,
                **({} if self.deadline_s is None else {"deadline_s": self.deadline_s}),
            },
            "network": network,
            "storage": {"reserve_bytes": 0},
        }
        if self.drill.sealed:
            fields["sealed"] = True
            fields["sealing"] = {"group_key": make_group_key(self.folder / GROUP_KEY).fingerprint}
        self.config.write_text("\n".join(toml_lines(fields)) + "\n", encoding="utf-8")

    def join_settings(self, member: str, endpoint: str) -> dict[str, object]:
        """Return the settings of `fedap-participant join`."""
        settings: dict[str, object] = {
            "coordinator": endpoint,
            "data": "synthetic",
            "data_options": data_options(member),
            "model_file": str(self.initial),
            "name": member,
            "state": str(self.home(member)),
            "validation": 0.0,
            "evaluate_beside": False,
            "also_local": False,
            "reconnect_s": 0.1,
            "reconnect_cap_s": 0.5,
            "answer_s": 0.6,
            "silence_beats": 5.0,
            "farewell_s": 20.0,
        }
        if self.secure:
            settings["keys"] = str(self.folder / "keys" / f"{member}.key")
            settings["coordinator_key"] = str(self.folder / "coordinator.public")
        else:
            settings["insecure"] = True
        if self.drill.sealed:
            settings["group_key"] = str(self.folder / GROUP_KEY)
        return settings


def free_port(rng: np.random.Generator, host: str = "127.0.0.1") -> int:
    """Return a port that is free now; a restarted coordinator must find it free too."""
    for port in rng.permutation(np.arange(*_PORTS))[:200]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, int(port)))
            except OSError:
                continue
            return int(port)
    raise RuntimeError("no free port")
