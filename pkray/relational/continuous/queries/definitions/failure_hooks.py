"""Tell a function, or a URL, that a query failed."""

import http.client
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from pkray.errors import OptionError
from pkray.options.values import HTTP_URL
from pkray.relational.continuous.queries.definitions.query_store import Failure
from pkray.storage.secrets import redact

_log = logging.getLogger(__name__)

OnFailure: TypeAlias = Callable[[dict[str, Any]], object]
"""Takes ``query``, ``node``, ``error`` and ``epoch``."""
HOOK_SECONDS = 10.0
"""For how long a query that failed waits for its hooks: what hangs is left alone then."""
_ANSWER_SECONDS = 5.0
"""For how long a URL is waited for, to connect and to answer."""


def check_failure_url(url: str) -> str:
    """Check a URL to which failures are posted.

    Raises:
        OptionError: it is none of HTTP or HTTPS, or has a user in it.
    """
    try:
        return str(HTTP_URL.parse(url))
    except ValueError:
        raise OptionError(
            "query.failure-url is no URL such as https://host/path, or has a user in it: leave "
            "the user out",
            key="query.failure-url",
        ) from None


def tell(query: str, failure: Failure, hook: OnFailure | None, url: str | None) -> str | None:
    """Tell hooks why a query failed.

    Returns:
        what became of it, in words; None where there is no hook.
    """
    said = {
        "query": query,
        "node": failure.node,
        "error": redact(failure.message, {}),
        "epoch": failure.epoch,
    }
    told = []
    if hook is not None:
        told.append(_bounded("on_failure", lambda: hook(dict(said))))
    if url is not None:
        told.append(_bounded(_host(url), lambda: _post(url, said)))
    return "; ".join(told) or None


def _bounded(name: str, call: Callable[[], object]) -> str:
    """Call a hook in a thread of its own, and say how that ended."""
    ended: list[str] = []

    def run() -> None:
        try:
            call()
            ended.append(f"{name} was told")
        except Exception as error:
            _log.warning("the failure hook %s failed: %s", name, redact(str(error), {}))
            ended.append(f"{name} failed: {type(error).__name__}")

    thread = threading.Thread(target=run, name="pkray-failure-hook", daemon=True)
    thread.start()
    thread.join(HOOK_SECONDS)
    return ended[0] if ended else f"{name} has not ended within {HOOK_SECONDS:.0f} s"


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _post(url: str, said: Mapping[str, Any]) -> None:
    """Post JSON; redirects are not followed, and the answer's content is not read."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_ANSWER_SECONDS)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        body = json.dumps(said).encode()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        status = connection.getresponse().status
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise OSError(f"{parts.hostname} answered {status}")
