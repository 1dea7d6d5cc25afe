"""Turning spans on and off."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider

from pkray import logs, spans, tracing
from pkray.errors import MissingExtraError


@pytest.fixture
def collector() -> Iterator[SimpleNamespace]:
    """A collector of OTLP, and the names of the spans that it was sent."""
    found = SimpleNamespace(names=[], services=[])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sent = ExportTraceServiceRequest.FromString(body)
            for resource in sent.resource_spans:
                of = {each.key: each.value for each in resource.resource.attributes}
                found.services.append(of["service.name"].string_value)
                found.names += [s.name for scope in resource.scope_spans for s in scope.spans]
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    yield found
    server.shutdown()
    server.server_close()
    thread.join(60)


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


SPAN = "from pkray import spans\nwith spans.span('commit'): pass\n"


def test_the_environment_turns_it_on_and_says_where_spans_go(collector):
    run(SPAN, PKRAY_TRACING="otlp", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert (collector.names, collector.services) == (["pkray.commit"], ["pkray"])


def test_variables_of_opentelemetry_alone_turn_nothing_on(collector):
    loaded = "import sys; print([n for n in sys.modules if n.startswith('opentelemetry')])"
    done = run(SPAN + loaded, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_SERVICE_NAME="x")
    assert (done.stdout.strip(), collector.names) == ("[]", [])


@pytest.mark.parametrize(("form", "is_ignored"), [("off", False), ("", False), ("jaeger", True)])
def test_another_word_turns_nothing_on(form, is_ignored):
    done = run(f"{SPAN}print(spans._is_on)", PKRAY_TRACING=form)
    assert done.stdout.strip() == "False"
    assert ("set it to otlp or off" in done.stderr) == is_ignored


@pytest.mark.parametrize("package", [tracing._SDK, tracing._EXPORTER])
def test_a_missing_package_is_an_error_that_names_the_extra(hidden, package):
    hidden.add(package)
    with pytest.raises(MissingExtraError, match=r"pip install 'pkray\[tracing\]'"):
        tracing.start()
    assert not spans._is_on


def test_an_applications_provider_needs_no_exporter(hidden):
    hidden.add(tracing._EXPORTER)
    tracing.start(TracerProvider())
    assert spans._is_on
    tracing.stop()
    assert not spans._is_on


def test_a_process_whose_environment_cannot_have_it_works_without(hidden, caplog):
    hidden.add(tracing._EXPORTER)
    with caplog.at_level(logging.WARNING, "pkray"):
        tracing.set_up("otlp")
    assert not spans._is_on
    assert "pkray[tracing]" in caplog.text


def test_lines_of_json_name_the_trace():
    stream = io.StringIO()
    logs.json_lines(stream)
    tracing.start(TracerProvider())
    try:
        with spans.span("commit", table="shop.stock"):
            logging.getLogger("pkray.x").warning("late")
            ids = spans.here()
    finally:
        tracing.stop()
        logs.stop()
    line = json.loads(stream.getvalue())
    assert {name: line[name] for name in ids} == ids
    assert len(ids["trace_id"]) == 32
