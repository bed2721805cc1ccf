"""The pages of both sides for readers elsewhere: TLS with a certificate of one's own, a token, and refusals without."""

from __future__ import annotations

import datetime as dt
import http.client
import ipaddress
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from participant.record.private_state import PrivateState
from tests.support.federation import WAIT_S
from tests.support.processes import ServeProcess
from tests.unit.coordinator.test_following import STARTED, write_run


def self_signed(path: Path) -> Path:
    """Certificate and key of 127.0.0.1 in one file, valid for an hour."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "page of a test")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + secret)
    return path


def subject(side: str, folder: Path) -> tuple[str, tuple[str, ...]]:
    """(module, arguments) of a page of either side."""
    if side == "coordinator":
        return "coordinator.cli", ("page", str(write_run(folder / "run", STARTED)))
    (folder / "state" / "state").mkdir(parents=True)
    (folder / "state" / "sent.jsonl").touch()
    PrivateState(folder / "state").set_current("wards")
    return "participant.cli", ("page", "--state", str(folder / "state"))


@pytest.fixture(params=["coordinator", "participant"])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """(port, folder with page.pem and page.token) of a page on every address of this machine."""
    module, arguments = subject(request.param, tmp_path)
    pem, token = self_signed(tmp_path / "page.pem"), tmp_path / "page.token"
    process = ServeProcess(
        *arguments, "--listen", "0.0.0.0:0", "--page-cert", str(pem), "--page-token", str(token),
        module=module, log=tmp_path / "log",
    )  # fmt: skip
    try:
        said = process.lines.get(timeout=WAIT_S)
        assert said.startswith("page: https://0.0.0.0:"), said
        assert "token is in" in said
        yield int(urlsplit(said.split()[1]).port or 0), tmp_path
        process.child.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert (tmp_path / "log").read_text().splitlines()[-1:] == ["interrupted"]
    finally:
        process.close()


def ask(port: int, trusted: ssl.SSLContext, path: str = "/", **headers: str) -> http.client.HTTPResponse:
    line = http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT_S, context=trusted)
    try:
        line.request("GET", path, headers=headers)
        answer = line.getresponse()
        answer.read()
        return answer
    finally:
        line.close()


def test_page_elsewhere_is_read_over_tls_with_the_token_alone(page: tuple[int, Path]) -> None:
    port, folder = page
    token = (folder / "page.token").read_text().strip()
    trusted = ssl.create_default_context(cafile=folder / "page.pem")
    assert ask(port, trusted).status == 401
    assert ask(port, trusted, authorization=f"Bearer {token}").status == 200
    first = ask(port, trusted, f"/?token={token}")
    cookie = first.headers["set-cookie"]
    assert first.status == 303
    assert "secure" in cookie.lower()
    assert ask(port, trusted, cookie=cookie.partition(";")[0]).status == 200
    assert ask(port, trusted, host="evil.example", authorization=f"Bearer {token}").status == 421
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(port, ssl.create_default_context())
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert not plain.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("side", ["coordinator", "participant"])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--listen", "0.0.0.0:0"), "--page-token FILE"),
        (("--listen", "0.0.0.0:0", "--page-cert", "page.pem"), "--page-token FILE"),
        (("--listen", "127.0.0.1:0", "--page-host", "fed.example"), "--page-token FILE"),
        (("--listen", "127.0.0.1:0", "--page-cert", "nothing.pem"), "a PEM file with a certificate and its key"),
        (("--listen", "127.0.0.1:0", "--page-cert", "key.pem"), "a PEM file with a certificate and its key"),
    ],
)
def test_page_without_what_it_needs_is_refused_in_one_line(
    tmp_path: Path, side: str, more: tuple[str, ...], said: str
) -> None:
    module, arguments = subject(side, tmp_path)
    self_signed(tmp_path / "page.pem")
    (tmp_path / "key.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    given = [str(tmp_path / one) if one.endswith(".pem") else one for one in more]
    process = ServeProcess(*arguments, *given, module=module, log=tmp_path / "log")
    assert process.wait() == 2
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_malformed_requests_are_refused_and_leave_nothing_in_the_log(page: tuple[int, Path]) -> None:
    """Whoever reaches the port may send them without a token, as many as they like."""
    port, folder = page
    trusted = ssl.create_default_context(cafile=str(folder / "page.pem"))
    before = (folder / "log").read_text()
    for sent in (b"\0nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"):
        for _ in range(5):
            plain = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
            with trusted.wrap_socket(plain, server_hostname="127.0.0.1") as line:
                line.sendall(sent)
                assert line.recv(12).startswith(b"HTTP/1.1 4")
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        plain.recv(100)
    assert (folder / "log").read_text() == before
