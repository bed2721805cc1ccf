"""Decides which addresses only this machine can reach, where both sides may work without keys, and what is a port."""

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


def port_number(text: str) -> int | None:
    """Return the TCP port that a text names, from 0 to 65535; None if it is none."""
    # five digits at most: Python refuses to convert thousands of them, and ZeroMQ knows ASCII digits only
    is_number = len(text) <= 5 and text.isascii() and text.isdecimal()
    return int(text) if is_number and int(text) <= 65_535 else None
