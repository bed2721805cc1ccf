"""Access rules of every page: read-only, known host names only, a token if one is set, and headers that keep a browser
from loading, framing or sending anything else."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protocol.host.web.address import PageAddress

COOKIE = "fedap_page"

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " style-src-attr 'unsafe-inline'; img-src data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guarded:
    """An ASGI application behind these rules."""

    def __init__(self, app: ASGIApp, address: PageAddress, token: str | None) -> None:
        self._app = app
        self._address = address
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._address.admits(headers.get("host", "")):
            return PlainTextResponse("unknown host name; allow it with --page-host\n", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this page is read-only\n", 405)
        if self._token is None:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
        if given and self._is_token(given):
            return self._with_cookie(scope)
        shown = headers.get("authorization", "").removeprefix("Bearer ")
        kept = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if self._is_token(shown) or self._is_token(kept):
            return None
        return PlainTextResponse("a token is needed: open /?token=TOKEN, or send Authorization: Bearer TOKEN\n", 401)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), (self._token or "").encode())

    def _with_cookie(self, scope: Scope) -> Response:
        """Store the token in a cookie and redirect, so that it disappears from the address bar and the history."""
        answer = RedirectResponse(scope["path"] if scope["path"].startswith("/") else "/", 303)
        is_secure = self._address.certificate is not None
        answer.set_cookie(COOKIE, self._token or "", httponly=True, samesite="strict", secure=is_secure)
        return answer
