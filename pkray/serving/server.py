"""Runs the server: of a warehouse, or of a file that `pkray.diagnose` has made."""

import contextlib
import ipaddress
import logging
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from pkray.api.catalog import Catalog
from pkray.errors import OptionError, PkrayError, ServiceUnavailableError
from pkray.inspection import Diagnosis
from pkray.metrics.exposition import CONTENT_TYPE
from pkray.serving.application import application, as_json, failed, pages, status_of
from pkray.serving.guard import HEALTH, LEAST_TOKEN, TOKEN_PARAMETER, Access, Guard

_log = logging.getLogger(__name__)

_TOKEN_BYTES = 32
_KEEP_ALIVE_SECONDS = 30
_CLOSE_SECONDS = 10
"""For which requests that run are waited for at the end."""


def serve(
    catalog: Catalog,
    host: str = "127.0.0.1",
    port: int = 8470,
    *,
    token_file: Path | None = None,
    hosts: Sequence[str] = (),
    allow_changes: bool = False,
    with_console: bool = True,
    opened: Callable[[str, Callable[[], None]], None] | None = None,
) -> None:
    """Serve a warehouse until the process is told to end.

    Args:
        host: the address to listen at; with another one than this machine's own, everybody in the
            network may send requests, and see tokens unless something before it encrypts.
        port: 0: any that is free.
        token_file: holds the token; by default a new one is printed.
        hosts, allow_changes, with_console: as of `application`.
        opened: is called with the address, when it listens, and with what ends the server.

    Raises:
        OptionError: the token is too short, or there is no such file.
        ServiceUnavailableError: the address is taken, or none of this machine's.
    """
    given = _read_token(token_file) if token_file is not None else None
    access = Access(given or _new_token(), tuple(hosts))
    made = application(catalog, access, allow_changes=allow_changes, with_console=with_console)
    _run(made, host, port, None if given else access.token, opened)


def serve_recorded(path: Path, port: int = 8470) -> None:
    """Serve the console of a diagnosis on this machine until the process is told to end.

    Args:
        path: of the file.
        port: 0: any that is free.

    Raises:
        CorruptFileError: it is no diagnosis.
        ServiceUnavailableError: the port is taken.
    """
    access = Access(_new_token())
    _run(recorded_application(Diagnosis(path), access), "127.0.0.1", port, access.token)


def _run(
    made: ASGIApp,
    host: str,
    port: int,
    token: str | None,
    opened: Callable[[str, Callable[[], None]], None] | None = None,
) -> None:
    """Run what was made, and print its address.

    Args:
        token: that is printed.
        opened: as of `serve`.
    """
    with contextlib.closing(_listening(host, port)) as listener:
        address = _address(host, listener.getsockname()[1], token)
        # On the terminal alone: the log does not hold the token.
        print(address, flush=True, file=sys.stdout)
        config = uvicorn.Config(
            made,
            log_config=None,
            access_log=False,  # URLs of first requests have the token
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
        server = uvicorn.Server(config)
        if opened is not None:
            opened(address, lambda: setattr(server, "should_exit", True))
        server.run(sockets=[listener])


def _new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def _read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"the file of the token, {path}, cannot be read: {error}") from None
    if len(token) < LEAST_TOKEN or not token.isascii():
        raise OptionError(
            f"the token in {path} is too short, or has other letters than ASCII: write "
            f"{LEAST_TOKEN} or more that nobody can guess"
        )
    return token


def _listening(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family)
    except OSError as error:
        raise ServiceUnavailableError(
            f"cannot listen at {host}:{port}: {error.strerror or error}; choose another --port or "
            "--host"
        ) from None
    if not ipaddress.ip_address(str(address[0])).is_loopback:
        _log.warning(
            "%s is open to the network, and tokens are sent as they are: put a proxy with TLS "
            "before it",
            host,
        )
    return listener


def _address(host: str, port: int, token: str | None) -> str:
    named = f"[{host}]" if ":" in host else host
    query = f"/?{TOKEN_PARAMETER}={token}" if token else "/"
    return f"http://{named}:{port}{query}"


def recorded_application(diagnosis: Diagnosis, access: Access) -> ASGIApp:
    """Make what serves a diagnosis: nothing in it runs, is looked up or changes."""
    about = diagnosis.about
    said = {"changes": [], "recorded": {"made": about.made, "versions": about.versions}}
    routes = [
        Route(HEALTH, lambda _: PlainTextResponse("ok\n")),
        *pages(),
        Route("/metrics", lambda _: Response(diagnosis.metrics(), media_type=CONTENT_TYPE)),
        Route("/api/access", lambda _: as_json(said)),
        Route("/api/home", _answering(lambda _: diagnosis.home())),
        Route("/api/cluster", _answering(lambda _: diagnosis.cluster())),
        Route("/api/logs", _answering(lambda _: {"logs": diagnosis.logs()})),
        Route("/api/tables/{name}", _answering(lambda asked: diagnosis.table(_name(asked)))),
        Route("/api/queries/{name}", _answering(lambda asked: diagnosis.query(_name(asked)))),
    ]
    return Guard(Starlette(routes=routes), access)


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _answering(made: Callable[[Request], Any]) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            found = made(request)
        except PkrayError as error:
            return failed(status_of(error), str(error))
        if found is None:
            return failed(404, "the file says nothing of it")
        if "error" in found:
            return failed(503, str(found["error"]))
        return as_json(found)

    return answer
