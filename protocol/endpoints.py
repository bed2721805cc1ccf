"""Decides which addresses only this machine can reach: there both sides may work without keys."""

from __future__ import annotations

import ipaddress


def is_local(endpoint: str) -> bool:
    """Whether only processes on this machine can reach an endpoint such as tcp://127.0.0.1:5555 or ipc:///run/x."""
    if endpoint.startswith("ipc://"):
        return True
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
