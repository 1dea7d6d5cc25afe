"""Logs as lines of JSON."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import pkray
from pkray import logs, spans
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.protocol import SessionId

LOG = logging.getLogger("pkray.somewhere")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    written = io.StringIO()
    logs.json_lines(written)
    yield written
    logs.stop()


def only_line(stream: io.StringIO) -> dict[str, Any]:
    [line] = stream.getvalue().splitlines()
    return json.loads(line)


def test_a_line_has_level_logger_and_message(stream):
    LOG.warning("a store does not answer:\n%s", "why")
    line = only_line(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "WARNING",
        "logger": "pkray.somewhere",
        "message": "a store does not answer:\nwhy",
    }


def test_fields_of_inner_work_are_added_to_those_around_it(stream):
    with spans.within(table="shop.stock", query="totals"), spans.within(epoch=7):
        LOG.warning("late", extra={"bucket": 3})
    line = only_line(stream)
    fields = {name: line[name] for name in spans.FIELDS if name in line}
    assert fields == {"table": "shop.stock", "query": "totals", "epoch": 7, "bucket": 3}


def test_fields_end_with_the_work(stream):
    with spans.within(table="shop.stock"):
        pass
    LOG.warning("later")
    assert "table" not in only_line(stream)


def test_a_session_is_an_object(stream):
    with spans.within(session=SessionId("etl", 2, 5)):
        LOG.warning("fenced")
    assert only_line(stream)["session"] == {"user": "etl", "generation": 2, "epoch": 5}


def test_fields_are_carried_to_another_thread(stream):
    with ThreadPoolExecutor(1) as threads, spans.within(table="shop.stock"):
        threads.submit(spans.carried(LOG.warning), "compacted").result()
    assert only_line(stream)["table"] == "shop.stock"


def test_a_commit_has_its_table_and_session_and_the_query_that_makes_it(
    stream, monkeypatch, tmp_path
):
    commit = Coordinator._commit

    def logged(coordinator: Coordinator, request: Any) -> Any:
        LOG.warning("commits")
        return commit(coordinator, request)

    monkeypatch.setattr(Coordinator, "_commit", logged)
    catalog = pkray.connect(tmp_path)
    table = catalog.create_table("shop.stock", [("item", "STRING NOT NULL")], ["item"])
    with spans.within(query="totals"):
        table.upsert([{"item": "nail"}], commit_user="etl")
    line = only_line(stream)
    named = line["table"], line["session"]["user"], line["query"]
    assert named == ("shop.stock", "etl", "totals")


def test_an_exception_has_its_stack(stream):
    try:
        raise ValueError("wrong")
    except ValueError:
        LOG.exception("failed")
    assert only_line(stream)["exception"].endswith("ValueError: wrong")


def test_nothing_is_kept_while_nobody_asked():
    with spans.within(table="shop.stock"):
        assert spans._fields.get() is None


def test_a_call_is_carried_as_it_is_while_nobody_asked():
    assert spans.carried(len) is len


@pytest.mark.parametrize(("form", "is_json"), [("json", True), ("text", False), ("xml", False)])
def test_the_environment_names_the_form(form, is_json):
    program = "import pkray, logging; logging.getLogger('pkray.x').warning('here')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, logs.VARIABLE: form},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    line = done.stderr.splitlines()[-1]
    assert line.startswith("{") == is_json
    assert ("is ignored" in done.stderr) == (form == "xml")
