"""Decides where a live page listens and who may read it, but not what it shows.

A page on loopback needs nothing. Elsewhere it needs a token, and TLS: its own certificate, or a proxy in front of it.
The name in a request's Host header must be known: otherwise another web site could read this page through its own host
name by making it resolve to this machine (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from fedap_core.errors import InvalidInput
from protocol.endpoints import port_number
from protocol.host.small_files import read_small_text

_LEAST_TOKEN = 20
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_EXPECTED = "HOST:PORT, such as 127.0.0.1:8600"


@dataclass(frozen=True, kw_only=True)
class PageAddress:
    """listen: HOST:PORT. token: file with the token, created if missing. hosts: further host names of the page, such as
    a proxy's. certificate: PEM file with certificate and key."""

    listen: str
    token: Path | None = None
    hosts: tuple[str, ...] = ()
    certificate: Path | None = None

    def __post_init__(self) -> None:
        host, port = self._parts()
        if not host or port_number(port) is None:
            raise InvalidInput("page", self.listen, _EXPECTED)
        if self.certificate is not None:
            _require_certificate(self.certificate)
        if self.token is None and not (self.is_local and all(name in _LOCAL_NAMES for name in self.hosts)):
            raise InvalidInput(
                "page", self.listen if not self.is_local else f"{self.listen} for {', '.join(self.hosts)}",
                "an address on this machine, because no token is used",
                "Give --page-token FILE, and --page-cert FILE or a proxy with TLS in front of it.",
            )  # fmt: skip

    def _parts(self) -> tuple[str, str]:
        host, _, port = self.listen.rpartition(":")
        return host.removeprefix("[").removesuffix("]"), port

    @property
    def host(self) -> str:
        return self._parts()[0]

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the page."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def bind(self) -> socket.socket:
        """Return a listening socket at this address. Creates the token file if it is missing."""
        if self.token is not None:
            read_token(self.token)
        try:
            found = socket.getaddrinfo(self.host, int(self._parts()[1]), type=socket.SOCK_STREAM)
            family, kind, protocol, _, place = found[0]
            listening = socket.socket(family, kind, protocol)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen(128)
        except OSError as error:
            raise InvalidInput("page", self.listen, "an address that can be bound", str(error)) from error
        return listening

    def url(self, listening: socket.socket) -> str:
        """Return the page's URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{listening.getsockname()[1]}/"

    def advice(self) -> str:
        """Return what the person who starts the page must know; empty if no token is needed."""
        if self.token is None:
            return ""
        opened = f"open it once as /?token=TOKEN; the token is in {self.token}"
        if self.is_local or self.certificate is not None:
            return opened
        return f"{opened}. It uses plain HTTP: put a proxy with TLS in front of it, or give --page-cert"

    def words(self, listening: socket.socket) -> str:
        """Return the line that a command prints when the page is up."""
        advice = self.advice()
        return f"page: {self.url(listening)}{f' ({advice})' if advice else ''}"

    def admits(self, host: str) -> bool:
        """Whether a request for this name (the Host header) may be answered."""
        name = _without_port(host).lower()
        if name in self.hosts or name == self.host.lower():
            return True
        if self.is_local:
            return name in _LOCAL_NAMES
        return _is_address(name)  # DNS rebinding needs a name; an address cannot be rebound


def _require_certificate(path: Path) -> None:
    """Refuse at once a certificate that the page's process could not use."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path, path, password="")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        expected = "a PEM file with a certificate and its key, without a password"
        raise InvalidInput("page-cert", path, expected, f"{error}.") from error


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def read_token(path: Path) -> str:
    """Read the token in a file; if the file is missing, create it with a new token, readable only by its owner."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
    token = read_small_text(path, errors="replace").strip()
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput("page-token", path, f"a file with a token of at least {_LEAST_TOKEN} letters and digits")
    return token
