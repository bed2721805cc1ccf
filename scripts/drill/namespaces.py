"""Gives every party its own network: namespaces joined by a bridge, with real loss, delay and rates in between.

Linux and root only. The bridge has its own namespace too: no address or interface ever appears outside, and deleting
the namespaces removes everything. What the kernel does not support (netem may be missing) is reported, not faked.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from scripts.drill.commands import ToolFailed, run_tool
from scripts.drill.faults import NetworkConditions

_PREFIX = "fedap-drill"
_NET = "10.213.7"
"""Part of the private 10.0.0.0/8; visible only inside the namespaces."""


class Namespaces:
    """One namespace per party, reached at `address`. Use as a context manager: nothing is left behind."""

    def __init__(self, parties: Sequence[str]) -> None:
        self._hub = f"{_PREFIX}-{os.getpid()}-hub"
        self.names = {party: f"{_PREFIX}-{os.getpid()}-{party}" for party in parties}
        self._numbers = {party: number for number, party in enumerate(parties, start=1)}

    def __enter__(self) -> Namespaces:
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._remove()

    def address(self, party: str) -> str:
        return f"{_NET}.{self._numbers[party]}"

    def _build(self) -> None:
        for name in (self._hub, *self.names.values()):
            run_tool("ip", "netns", "add", name)
        run_tool("ip", "-n", self._hub, "link", "add", "bridge", "type", "bridge")
        run_tool("ip", "-n", self._hub, "link", "set", "bridge", "up")
        for party, name in self.names.items():
            port = f"to-{self._numbers[party]}"
            pair = ("type", "veth", "peer", "name", "eth0", "netns", name)
            run_tool("ip", "-n", self._hub, "link", "add", port, *pair)
            run_tool("ip", "-n", self._hub, "link", "set", port, "master", "bridge", "up")
            run_tool("ip", "-n", name, "address", "add", f"{self.address(party)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run_tool("ip", "-n", name, "link", "set", device, "up")

    def _remove(self) -> None:
        for name in (self._hub, *self.names.values()):
            with contextlib.suppress(ToolFailed):  # never made
                run_tool("ip", "netns", "delete", name)

    def plug(self, party: str, *, connected: bool) -> None:
        """Unplug a party's cable or plug it in again: packets vanish, connections are not notified."""
        state = "up" if connected else "down"
        run_tool("ip", "-n", self._hub, "link", "set", f"to-{self._numbers[party]}", state)

    def change(self, conditions: NetworkConditions) -> None:
        """Apply these conditions to everything that a party sends or receives from now on."""
        for space, device in (
            (self.names[conditions.party], "eth0"),
            (self._hub, f"to-{self._numbers[conditions.party]}"),
        ):
            run_tool("tc", "-n", space, "qdisc", "replace", "dev", device, "root", *discipline(conditions))


def discipline(conditions: NetworkConditions) -> list[str]:
    """Return the queueing discipline for these conditions as arguments of `tc`."""
    if not conditions.needs_netem:
        return ["tbf", "rate", f"{conditions.rate_mbit:g}mbit", "burst", "64kb", "latency", "200ms"]
    words = ["netem", "rate", f"{conditions.rate_mbit:g}mbit"]
    if conditions.delay_ms:
        words += ["delay", f"{conditions.delay_ms:g}ms", f"{conditions.delay_ms / 2.0:g}ms"]
    if conditions.loss_percent:
        words += ["loss", f"{conditions.loss_percent:g}%"]
    if conditions.reorder_percent:
        words += ["reorder", f"{conditions.reorder_percent:g}%"]
    return words


def why_impossible() -> str | None:
    """Return why namespaces cannot be made here; None if they can."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    try:
        with Namespaces(("probe",)):
            return None
    except ToolFailed as failure:
        return str(failure)


def has_netem() -> bool:
    """Whether this kernel can drop, delay and reorder packets; call only if namespaces are possible."""
    storm = NetworkConditions(party="probe", rate_mbit=100.0, delay_ms=1.0)
    try:
        with Namespaces(("probe",)) as spaces:
            spaces.change(storm)
    except ToolFailed:
        return False
    return True


def remove_leftovers() -> None:
    """Delete the namespaces of drills whose process was killed before it could clean up."""
    with contextlib.suppress(ToolFailed):
        for line in run_tool("ip", "netns", "list").splitlines():
            found = re.match(rf"({_PREFIX}-(\d+)-\w+)\b", line)
            if found and not Path(f"/proc/{found[2]}").exists():
                run_tool("ip", "netns", "delete", found[1])
