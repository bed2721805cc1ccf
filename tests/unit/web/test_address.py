"""Claims about where a page listens: this machine by default, elsewhere with a token, under known names alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from protocol.host.web.address import PageAddress, read_token


@pytest.mark.parametrize("listen", ["127.0.0.1:8600", "localhost:0", "[::1]:8600", "127.9.9.9:1"])
def test_an_address_of_this_machine_needs_no_token(listen: str) -> None:
    assert PageAddress(listen=listen).is_local


@pytest.mark.parametrize("listen", ["0.0.0.0:8600", "[::]:8600", "192.0.2.1:80", "coordinator.example:8600"])
def test_another_address_is_refused_without_a_token_and_says_what_is_needed(listen: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"--page-token FILE, and --page-cert FILE or a proxy with TLS"):
        PageAddress(listen=listen)
    advice = PageAddress(listen=listen, token=tmp_path / "token").advice()
    assert "put a proxy with TLS in front of it" in advice


def test_a_name_of_a_proxy_needs_a_token_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"fed\.example"):
        PageAddress(listen="127.0.0.1:8600", hosts=("fed.example",))
    assert PageAddress(listen="127.0.0.1:8600", hosts=("fed.example",), token=tmp_path / "token").admits("fed.example")


@pytest.mark.parametrize("listen", ["8600", "127.0.0.1", "127.0.0.1:99999", ":8600", "127.0.0.1:http"])
def test_what_is_no_address_is_refused_in_one_line(listen: str) -> None:
    with pytest.raises(InvalidInput, match="HOST:PORT"):
        PageAddress(listen=listen)


@pytest.mark.parametrize(
    ("host", "admitted"),
    [
        ("127.0.0.1:8600", True),
        ("localhost:8600", True),
        ("LOCALHOST", True),
        ("[::1]:8600", True),
        ("evil.example:8600", False),
        ("127.0.0.1.evil.example", False),
        ("192.0.2.1", False),
        ("", False),
    ],
)
def test_a_page_on_this_machine_answers_under_this_machines_names_alone(host: str, admitted: bool) -> None:
    assert PageAddress(listen="127.0.0.1:8600").admits(host) is admitted


def test_a_page_for_others_answers_under_addresses_and_listed_names(tmp_path: Path) -> None:
    page = PageAddress(listen="0.0.0.0:8600", token=tmp_path / "token", hosts=("fed.example",))
    hosts = ("192.0.2.7:8600", "[2001:db8::1]:8600", "fed.example", "evil.example")
    assert [page.admits(host) for host in hosts] == [True, True, True, False]


def test_a_token_is_made_once_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "token"
    token = read_token(path)
    assert len(token) >= 32
    assert read_token(path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "short", "with spaces in it, but long enough"])
def test_a_weak_token_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(InvalidInput, match="page-token"):
        read_token(tmp_path / "token")


def test_a_port_in_use_is_refused_in_one_line() -> None:
    with PageAddress(listen="127.0.0.1:0").bind() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match="an address that can be bound"):
            PageAddress(listen=f"127.0.0.1:{port}").bind()
