"""Access control: only a browser on this machine that got the token from the user may read the pages.

Requests from pages of other sites are refused: they have another origin and no cookie, and a host name that a site
points to this machine (DNS rebinding) is not in the list of hosts. Nothing on a page can send data away, because every
response has a content security policy and the other headers.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PLAIN_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
"""The content security policy of responses without a policy of their own."""
HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_NO_ACCESS = (
    "Open the address that `agentbench view` printed, including its token.\n"
    "Copy it to the address bar of your browser, because links from other pages do not work.\n"
)


class Gate:
    """Middleware that refuses requests that the user did not make, and adds headers.

    ``hosts`` are the values of ``Host`` that are accepted, such as ``127.0.0.1:8000``.
    """

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str], cookie: str, token: str) -> None:
        """The cookie differs from the token, so an address in the browser's history does not give access to pages."""
        self._app, self._hosts, self._cookie, self._token = app, hosts, cookie, token
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            raise RuntimeError(f"unexpected connection of type {scope['type']!r}")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("content-security-policy", PLAIN_POLICY)
            await send(message)

        answer = self._refusal(scope) or self._exchange(scope) or self._app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return PlainTextResponse("This address is not served here.\n", 421)
        if any(origin != f"http://{hosts[0]}" for origin in headers.getlist("origin")):
            return PlainTextResponse("Requests from other pages are refused.\n", 403)
        if any(site not in ("same-origin", "none") for site in headers.getlist("sec-fetch-site")):
            return PlainTextResponse(_NO_ACCESS, 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("These pages are read-only.\n", 405, {"allow": "GET, HEAD"})
        return None

    def _exchange(self, scope: Scope) -> Response | None:
        """Exchange the token in an address for a cookie; ``None`` for a request with the cookie and no token."""
        headers = Headers(scope=scope)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == "token"]
        if not tokens:
            cookies = [cookie_parser(line).get(self._cookie, "") for line in headers.getlist("cookie")]
            known = any(_same(value, self._session) for value in cookies)
            return None if known else PlainTextResponse(_NO_ACCESS, 403)
        if len(tokens) != 1 or not _same(tokens[0], self._token):
            return PlainTextResponse(_NO_ACCESS, 403)
        rest = urlencode([pair for pair in query if pair[0] != "token"])
        # Include the host, because a path that starts with two slashes would be read as another host.
        address = f"http://{headers['host']}{quote(scope['path'])}{'?' if rest else ''}{rest}"
        response = RedirectResponse(address, 303)
        response.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return response


def _same(given: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode(), expected.encode())
