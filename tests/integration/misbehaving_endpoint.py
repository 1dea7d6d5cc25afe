"""An endpoint that passes requests on to another one, and spoils some of them."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Answer = tuple[int, dict[str, str], bytes]
Fault = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    endpoint: MisbehavingEndpoint

    def setup(self) -> None:
        self.endpoint.connections += 1
        super().setup()

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        kind = "LIST" if "list-type=2" in self.path else self.command
        self.endpoint.paths.append(self.path)
        fault = self.endpoint.take(kind)
        if self.endpoint.refused and self.path.endswith(self.endpoint.refused):
            fault = says(403, "AccessDenied")
        if fault is None:
            self.answer(*self.passed_on())
        else:
            fault(self)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815

    def passed_on(self) -> Answer:
        target = urlsplit(self.endpoint.behind)
        connection = http.client.HTTPConnection(target.hostname or "", target.port)
        path = self.path
        if self.endpoint.page is not None and "list-type=2" in path:
            path += f"&max-keys={self.endpoint.page}"
        connection.request(self.command, path, self.body, dict(self.headers))
        response = connection.getresponse()
        headers = {
            name: value
            for name, value in response.getheaders()
            if name.lower() not in ("transfer-encoding", "connection", "content-length")
        }
        body = response.read()
        if self.command == "HEAD":
            headers["Content-Length"] = response.getheader("Content-Length") or "0"
        connection.close()
        return response.status, headers, body

    def answer(
        self, status: int, headers: dict[str, str], body: bytes, more: int = 0, pause: float = 0
    ) -> None:
        """Send an answer.

        Args:
            more: bytes that are announced and do not come.
            pause: seconds after each byte.
        """
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body) + more))
        self.end_headers()
        pieces = [body[at : at + 1] for at in range(len(body))] if pause else [body]
        for piece in pieces:
            self.wfile.write(piece)
            if pause:
                self.wfile.flush()
                if self.endpoint.closing.wait(pause):
                    break
        self.close_connection = self.close_connection or bool(more)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class MisbehavingEndpoint:
    """Counts requests by kind, LIST or the method, and spoils those that it is told to.

    Args:
        behind: the endpoint that answers in truth.
    """

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.page: int | None = None
        self.requests: list[str] = []
        self.paths: list[str] = []
        self.refused = ""
        self.connections = 0
        self.spoilt = 0
        self.closing = threading.Event()
        self._faults: dict[str, Iterator[Fault | None]] = {}
        self._lock = threading.Lock()
        handler = type("BoundHandler", (Handler,), {"endpoint": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def spoil(
        self,
        kind: str,
        *faults: Fault | None,
        always: bool = False,
        each: Iterator[Fault | None] | None = None,
    ) -> None:
        """Do these to the next requests of a kind, one each; None lets one through.

        Args:
            kind: LIST, a method, or ``*`` for all.
            always: and the last to all after them.
            each: in place of `faults`.
        """

        def following() -> Iterator[Fault | None]:
            yield from faults
            while always:
                yield faults[-1]

        self._faults[kind] = each or following()

    def take(self, kind: str) -> Fault | None:
        with self._lock:
            self.requests.append(kind)
            faults = self._faults.get(kind) or self._faults.get("*")
            fault = next(faults, None) if faults else None
            self.spoilt += fault is not None
            return fault

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def misbehaving(behind: str) -> Iterator[MisbehavingEndpoint]:
    """Such an endpoint, until the block ends."""
    endpoint = MisbehavingEndpoint(behind)
    try:
        yield endpoint
    finally:
        endpoint.close()


def breaks_off(handler: Handler) -> None:
    """Half of the answer comes, then the connection ends."""
    status, headers, body = handler.passed_on()
    handler.answer(status, headers, body[: len(body) // 2], more=len(body) // 2 + 1)


def breaks_off_unannounced(handler: Handler) -> None:
    """Half of the answer comes, whose length nobody was told."""
    handler.close_connection = True
    _, _, body = handler.passed_on()
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Type: application/xml\r\n\r\n")
    handler.wfile.write(body[: len(body) // 2])


def hangs_up(handler: Handler) -> None:
    """The connection ends without an answer."""
    handler.close_connection = True


def hangs_up_after(handler: Handler) -> None:
    """What was asked for is done, and the connection ends without an answer."""
    handler.passed_on()
    handler.close_connection = True


def comes_late(handler: Handler) -> None:
    """The answer takes its time."""
    handler.endpoint.closing.wait(1)
    handler.answer(*handler.passed_on())


def is_a_page(handler: Handler) -> None:
    """A page of somebody else answers, as those of networks do that one has to log in to."""
    page = b"<html><body>Log in</body></html>"
    headers = {"Content-Type": "text/html", "Content-Length": str(len(page))}
    handler.answer(200, headers, b"" if handler.command == "HEAD" else page)


def forgets_conditions(handler: Handler) -> None:
    """What is there is replaced, as the condition of the request does not reach the store."""
    del handler.headers["If-None-Match"]
    handler.answer(*handler.passed_on())


def claims_success(handler: Handler) -> None:
    """What is there stays, and the answer is that of a file that was written."""
    status, headers, body = handler.passed_on()
    handler.answer(*((200, {"ETag": '"1"'}, b"") if status == 412 else (status, headers, body)))


def is_silent(handler: Handler) -> None:
    """No answer comes."""
    handler.endpoint.closing.wait(240)
    handler.close_connection = True


def dribbles(handler: Handler) -> None:
    """The answer comes byte by byte, five a second."""
    handler.answer(*handler.passed_on(), pause=0.2)


def says(status: int, code: str, message: str = "no") -> Fault:
    """Answers with an error of S3."""
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()

    def fault(handler: Handler) -> None:
        handler.answer(status, {"Content-Type": "application/xml"}, body)

    return fault
