"""Claims about what stands before a page: reading only, known names, the token, and headers that allow nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from protocol.host.web.access import COOKIE, Guarded
from protocol.host.web.address import PageAddress
from tests.support.web import Visitor, served

TOKEN = "t" * 30


async def _page(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("the page")


@contextmanager
def page(token: Path | None = None) -> Iterator[Visitor]:
    address = PageAddress(listen="127.0.0.1:0", token=token)
    app = Starlette(routes=[Route("/", _page, methods=["GET", "POST"])])
    with served(lambda: Guarded(app, address, TOKEN if token is not None else None)) as visitor:
        yield visitor


def test_a_request_under_another_name_is_refused() -> None:
    """How DNS rebinding shows: the browser believes to talk to evil.example."""
    with page() as visitor:
        answer = visitor.ask(host="evil.example:8600")
    assert (answer.status, "the page" in answer.text) == (421, False)


def test_nothing_can_be_sent_to_it() -> None:
    with page() as visitor:
        assert [visitor.ask(way=way).status for way in ("GET", "POST", "DELETE")] == [200, 405, 405]


def test_every_answer_forbids_the_browser_whatever_it_does_not_need() -> None:
    with page() as visitor:
        answers = [visitor.ask(), visitor.ask("/nowhere"), visitor.ask(host="x")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"cookie": f"{COOKIE}=wrong"}])
def test_without_the_token_nothing_is_shown(tmp_path: Path, headers: dict[str, str]) -> None:
    with page(tmp_path / "token") as visitor:
        answer = visitor.ask(**headers)
    assert (answer.status, "the page" in answer.text) == (401, False)


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(tmp_path: Path) -> None:
    with page(tmp_path / "token") as visitor:
        first = visitor.ask(f"/?token={TOKEN}")
        parts = [part.strip() for part in first.headers["set-cookie"].split(";")]
        assert (first.status, first.headers["location"]) == (303, "/")
        assert {"httponly", "samesite=strict"} <= {part.lower() for part in parts}
        assert visitor.ask(cookie=parts[0]).text == "the page"


def test_programs_show_the_token_as_a_bearer(tmp_path: Path) -> None:
    with page(tmp_path / "token") as visitor:
        assert visitor.ask(authorization=f"Bearer {TOKEN}").text == "the page"
