"""Who is told when a continuous query fails."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import pkray
from pkray.errors import OptionError, QueryFailedError
from pkray.relational.continuous.queries.definitions import failure_hooks

WRONG = "SELECT k, 12 / v AS w FROM t"


@pytest.fixture
def catalog(catalog) -> pkray.Catalog:
    table = catalog.create_table("default.t", [("k", "INT"), ("v", "INT")], ["k"])
    table.upsert([{"k": 1, "v": 0}])
    return catalog


class Receiver:
    """A server that takes JSON.

    Attributes:
        received: what was posted.
    """

    def __init__(self, status: int) -> None:
        self.received: list[dict[str, Any]] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook?to=me"


@pytest.fixture
def receiver() -> Iterator[Callable[[int], Receiver]]:
    opened: list[Receiver] = []

    def start(status: int) -> Receiver:
        opened.append(Receiver(status))
        return opened[-1]

    yield start
    for each in opened:
        each.server.shutdown()
        each.server.server_close()


def status_of_failed(query: Any) -> dict[str, Any]:
    with pytest.raises(QueryFailedError, match=r"stopped at \d+ Calc: .*zero"):
        query.wait({"default.t": 99}, timeout=120)
    found: dict[str, Any] = query.status()
    return found


def test_a_function_is_told_why_a_query_failed(catalog):
    told: list[dict[str, Any]] = []
    query = catalog.sql(WRONG).materialize("default.r", on_failure=told.append)
    status = status_of_failed(query)
    assert status["failure_told"] == "on_failure was told"
    assert told == [
        {
            "query": "default.r",
            "node": status["failed_node"],
            "error": status["failure"],
            "epoch": 0,
        }
    ]


def test_it_is_told_of_a_query_that_is_resumed_or_started(catalog):
    told: list[str] = []
    catalog.create_table("default.r", [("k", "INT"), ("w", "DOUBLE")], ["k"])
    insert = catalog.sql(f"INSERT INTO r {WRONG}")
    status_of_failed(insert.start(on_failure=lambda said: told.append("started")))
    resumed = catalog.query("default.r").resume(on_failure=lambda said: told.append("resumed"))
    status_of_failed(resumed)
    assert told == ["started", "resumed"]


def test_a_url_is_told_why_a_query_failed(catalog, receiver):
    there = receiver(204)
    catalog.sql(f"SET 'query.failure-url' = '{there.url}'")
    status = status_of_failed(catalog.sql(WRONG).materialize("default.r"))
    assert status["failure_told"] == "127.0.0.1 was told"
    assert [sorted(each) for each in there.received] == [["epoch", "error", "node", "query"]]
    assert "divides by zero" in there.received[0]["error"]


def test_what_was_told_is_seen_from_other_processes(catalog):
    query = catalog.sql(WRONG).materialize("default.r", on_failure=lambda said: None)
    status_of_failed(query)
    query.stop()
    status = query.status()
    assert (status["state"], status["failure_told"]) == ("failed", "on_failure was told")
    assert status["failed_node"].endswith("Calc")


@pytest.mark.parametrize("answer", [302, 500])
def test_a_url_that_refuses_is_seen_in_the_status(catalog, receiver, answer):
    there = receiver(answer)
    catalog.sql(f"SET 'query.failure-url' = '{there.url}'")
    status = status_of_failed(catalog.sql(WRONG).materialize("default.r"))
    assert status["failure_told"] == "127.0.0.1 failed: OSError"
    assert len(there.received) == 1


def test_a_hook_that_hangs_or_fails_does_not_hold_the_query(catalog, monkeypatch):
    woken = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(failure_hooks, "HOOK_SECONDS", 0.1)
        query = catalog.sql(WRONG).materialize("default.r", on_failure=lambda said: woken.wait(200))
        assert "has not ended" in status_of_failed(query)["failure_told"]
    woken.set()
    query.resume(on_failure=lambda said: said["nothing"])
    assert status_of_failed(query)["failure_told"] == "on_failure failed: KeyError"


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "file:///etc/passwd", "http://", "http://a:b@host"]
)
def test_urls_that_are_none_of_http_or_have_users_are_refused(catalog, url):
    with pytest.raises(OptionError, match=r"query\.failure-url") as raised:
        catalog.sql(f"SET 'query.failure-url' = '{url}'")
    assert url not in str(raised.value)


def test_secrets_of_urls_are_not_posted(monkeypatch):
    said: list[dict[str, Any]] = []
    failure = failure_hooks.Failure(
        "no https://host/x?token=abcdef", "StorageError", 3, 0, "2 Calc"
    )
    failure_hooks.tell("q", failure, said.append, None)
    assert said == [
        {"query": "q", "node": "2 Calc", "error": "no https://host/x?token=***", "epoch": 3}
    ]


def test_the_operator_of_another_worker_is_named(catalog):
    catalog.load_table("default.t").upsert([{"k": each, "v": each} for each in range(40)])
    catalog.sql("SET 'query.parallelism' = '2'")
    text = "SELECT n, 12 / (n - 2) AS w FROM (SELECT v % 20 AS g, COUNT(*) AS n FROM t GROUP BY g)"
    query = catalog.sql(text).materialize("default.r")
    assert status_of_failed(query)["failed_node"].endswith(" Calc")
