"""What a client is at work on goes along with its calls to owners and coordinators."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pkray import logs, spans, tracing

pytestmark = pytest.mark.ray


@pytest.fixture(params=["pooled", pytest.param("dedicated", marks=pytest.mark.slow)])
def table(request, shared_catalog):
    options = {"bucket": "2", "service.dedicated": str(request.param == "dedicated").lower()}
    columns = [("k", "BIGINT"), ("v", "INT")]
    table = shared_catalog.create_table("db.t", columns, ["k"], options=options)
    table.upsert([{"k": key, "v": 1} for key in range(20)])
    yield table
    shared_catalog.drop_table("db.t")


def told(table: Any, what: Any) -> list[Any]:
    """Run a function in each process that has parts of the table."""
    import ray

    from pkray.service.ray.actors import NAMESPACE, service_name
    from pkray.service.ray.pool import pool_name

    named: Any = ray.util.list_named_actors
    beginnings = service_name(table.location), f"{pool_name(table.location)}-worker"
    names = [each["name"] for each in named(True) if each["name"].startswith(beginnings)]
    actors = [ray.get_actor(name, NAMESPACE) for name in names]
    return ray.get([actor.__ray_call__.remote(what) for actor in actors], timeout=120)


@pytest.fixture
def recorded(table) -> Iterator[InMemorySpanExporter]:
    """The spans of this process; those of others are recorded, too."""

    def begin(actor: Any) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        from pkray import tracing

        tracing.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(tracing.exporter))
        tracing.start(provider)

    told(table, begin)
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.start(provider)
    yield exporter
    tracing.stop()


def of_others(table: Any) -> dict[str, list[tuple[int, int, dict[str, Any]]]]:
    """Traces, parents and attributes of the spans of the table's processes, by name."""

    def finished(actor: Any) -> list[tuple[str, int, int, dict[str, Any]]]:
        from pkray import tracing

        return [
            (s.name, s.context.trace_id, s.parent.span_id if s.parent else 0, dict(s.attributes))
            for s in tracing.exporter.get_finished_spans()
        ]

    found: dict[str, list[tuple[int, int, dict[str, Any]]]] = {}
    for of_one in told(table, finished):
        for name, *others in of_one:
            found.setdefault(name, []).append(tuple(others))
    return found


def test_what_an_owner_finds_is_in_the_trace_of_the_lookup(table, recorded):
    with spans.within(query="totals"):
        table.lookup([{"k": key} for key in range(20)])
    (lookup,) = recorded.get_finished_spans()
    found = of_others(table)["pkray.find"]
    attributes = {"pkray.query": "totals", "pkray.table": "db.t"}
    assert found == [(lookup.context.trace_id, lookup.context.span_id, attributes)] * 2


def test_all_steps_of_a_commit_are_in_one_trace(table, recorded):
    table.upsert([{"k": key, "v": 2} for key in range(20)], commit_user="etl")
    (commit,) = [s for s in recorded.get_finished_spans() if s.name == "pkray.commit"]
    others = of_others(table)
    steps = ("coordinate", "prepare", "flush", "publish", "race", "acknowledge")
    traces = {name: {each[0] for each in others[f"pkray.{name}"]} for name in steps}
    assert traces == {name: {commit.context.trace_id} for name in steps}
    (coordinate,) = others["pkray.coordinate"]
    assert coordinate[1] == commit.context.span_id
    assert coordinate[2]["pkray.session"] == commit.attributes["pkray.session"]


def test_what_owners_take_is_in_the_trace_of_the_push(table, recorded):
    with table.open_writer("etl") as writer:
        writer.upsert([{"k": key, "v": 2} for key in range(20)])
        writer.commit()
    (push,) = [s for s in recorded.get_finished_spans() if s.name == "pkray.push"]
    taken = of_others(table)["pkray.take"]
    assert {each[:2] for each in taken} == {(push.context.trace_id, push.context.span_id)}


def test_a_line_of_an_owners_log_names_what_its_client_is_at_work_on(table):
    def begin(actor: Any) -> None:
        import io
        import logging

        from pkray import logs
        from pkray.service.owner.lookups import OwnerLookups

        answer = OwnerLookups.answer

        def logged(self: Any, asked: Any) -> Any:
            logging.getLogger("pkray.tests").warning("asked")
            return answer(self, asked)

        logs.lines = io.StringIO()
        logs.json_lines(logs.lines)
        OwnerLookups.answer = logged

    def written(actor: Any) -> str:
        from pkray import logs

        return logs.lines.getvalue()

    told(table, begin)
    logs.json_lines(io.StringIO())
    try:
        with spans.within(query="totals", epoch=7):
            table.lookup([{"k": 1}])
    finally:
        logs.stop()
    (line,) = [each for text in told(table, written) for each in text.splitlines()]
    assert '"table": "db.t", "query": "totals", "epoch": 7' in line
