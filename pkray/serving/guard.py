"""Lets requests in: by their host, their origin and their token."""

import hmac
import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "pkray_token"
TOKEN_PARAMETER = "token"
HEALTH = "/health"
LEAST_TOKEN = 16
"""Characters of a token: fewer can be guessed."""
_HOST = re.compile(r"(?:(?P<name>[\w.-]+)|\[(?P<address>[\da-fA-F:.]+)\])(?::\d{1,5})?", re.ASCII)
_MOST_BODY = 64 << 10
"""Bytes of a request: a statement fits, and nothing large is held for somebody unknown."""
_YEAR_SECONDS = 31_536_000
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Nothing foreign and nothing inline is run, loaded or sent to."""
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """Says who is let in.

    Args:
        token: is to come with each request.
        hosts: names under which the server is called, beside ``localhost`` and addresses; another
            name may be one whose owner has it lead here, so that a page of his reads the answers.
    """

    token: str = field(repr=False)
    hosts: Collection[str] = ()

    def knows_host(self, host: str) -> bool:
        """Whether a request may name this host: with its port, as a browser sends it."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = (found["name"] or found["address"]).lower()
        if name == "localhost" or name in {each.lower() for each in self.hosts}:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def is_token(self, given: str | None) -> bool:
        """Whether it is the token; how long that takes says nothing of it."""
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())


class Guard:
    """Stands before an application, and answers what it does not let in."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the application do it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await _refused(403, "only HTTP is served here")(scope, receive, send)
            return
        answer = self._answer(scope)
        app = self._app if answer is None else answer
        await app(scope, _bounded(receive), _with_headers(send))

    def _answer(self, scope: Scope) -> Response | None:
        """Refuse a request, or take its token out of the URL; None: it is let in."""
        headers, method = Headers(scope=scope), scope["method"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._access.knows_host(hosts[0]):
            return _refused(421, "the server is not called by this name: give it in --allow-host")
        if method not in ("GET", "HEAD", "POST"):
            return _refused(405, f"{method} is not answered")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != hosts[0].lower():
            return _refused(403, "the request comes from a page of another origin")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return _refused(403, "the request comes from a page of another site")
        if not _is_short(headers):
            return _refused(413, f"a request has at most {_MOST_BODY} bytes")
        if scope["path"] == HEALTH:
            return None
        if self._access.is_token(_of_header(headers)):
            return None
        if self._access.is_token(_of_cookie(headers, _port_of(scope))):
            # A form of another site sends no Origin in old browsers: only our own scripts do this.
            if method == "POST" and origin is None:
                return _refused(403, "a request that is no script's brings no origin")
            return None
        return self._with_cookie(scope) or _refused(
            401, "open the address that `pkray serve` has printed, or send its token"
        )

    def _with_cookie(self, scope: Scope) -> Response | None:
        """Answer the first request of a browser, whose URL has the token: it goes into a cookie,
        and out of the URL, its history and the pages that it links to."""
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in pairs if name == TOKEN_PARAMETER]
        if scope["method"] != "GET" or len(tokens) != 1 or not self._access.is_token(tokens[0]):
            return None
        others = urlencode([pair for pair in pairs if pair[0] != TOKEN_PARAMETER])
        path = "/" + scope["path"].lstrip("/\\")  # "//host" would lead elsewhere
        answer = RedirectResponse(f"{path}?{others}" if others else path, 303)
        answer.set_cookie(
            cookie_name(_port_of(scope)),
            tokens[0],
            max_age=_YEAR_SECONDS,
            httponly=True,
            samesite="strict",
            secure=scope["scheme"] == "https",
        )
        return answer


def cookie_name(port: int) -> str:
    """Name the cookie: servers of one host and several ports share those of a browser."""
    return f"{COOKIE}_{port}"


def _port_of(scope: Scope) -> int:
    server = scope.get("server")
    return server[1] or 0 if server else 0


def _of_header(headers: Headers) -> str | None:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _of_cookie(headers: Headers, port: int) -> str | None:
    try:
        cookies: Mapping[str, object] = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return None
    found = cookies.get(cookie_name(port))
    return None if found is None else str(getattr(found, "value", ""))


def _is_short(headers: Headers) -> bool:
    length = headers.get("content-length", "0")
    return length.isascii() and length.isdecimal() and int(length) <= _MOST_BODY


def _refused(status: int, reason: str) -> Response:
    return JSONResponse({"error": reason}, status)


def _bounded(receive: Receive) -> Receive:
    """Take no more of a request than it may have, whatever length it says."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        return message if taken <= _MOST_BODY else {"type": "http.disconnect"}

    return bounded


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
