"""What a process is at work on: fields and spans, in threads and in envelopes."""

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pkray import logs, spans
from pkray.service.protocol import SessionId
from tests.recorded_spans import recorded


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    with recorded() as exporter:
        yield exporter


@pytest.fixture
def logged() -> Iterator[None]:
    logs.json_lines(io.StringIO())
    yield
    logs.stop()


def finished(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {each.name: each for each in exporter.get_finished_spans()}


def test_a_span_has_the_fields_around_it_as_attributes(exporter):
    with spans.within(query="totals"), spans.span("epoch", epoch=7):
        pass
    (made,) = exporter.get_finished_spans()
    assert made.name == "pkray.epoch"
    assert made.attributes == {"pkray.query": "totals", "pkray.epoch": 7}


def test_a_span_is_below_the_one_around_it(exporter):
    with spans.span("commit", table="shop.stock"), spans.span("flush", bucket=3):
        pass
    made = finished(exporter)
    assert made["pkray.flush"].parent.span_id == made["pkray.commit"].context.span_id
    assert made["pkray.flush"].attributes == {"pkray.table": "shop.stock", "pkray.bucket": 3}


def test_a_session_is_one_text(exporter):
    with spans.span("commit", session=SessionId("etl", 2, 5)):
        pass
    assert finished(exporter)["pkray.commit"].attributes == {"pkray.session": "etl/2/5"}


def test_an_error_is_recorded_without_its_message(exporter):
    with pytest.raises(ValueError, match="4711"), spans.span("commit"):
        raise ValueError("the card 4711 of Ann")
    (made,) = exporter.get_finished_spans()
    (event,) = made.events
    assert event.attributes["exception.type"] == "builtins.ValueError"
    assert "test_spans.py" in event.attributes["exception.stacktrace"]
    assert not made.status.is_ok
    assert "4711" not in made.to_json()


def test_threads_of_a_pool_take_the_span_along_side_by_side(exporter):
    with spans.span("commit"), ThreadPoolExecutor(4) as threads:

        def upload(_: int) -> None:
            with spans.span("upload"):
                pass

        list(threads.map(spans.carried(upload), range(40)))
    *uploads, commit = exporter.get_finished_spans()
    assert len(uploads) == 40
    assert {each.parent.span_id for each in uploads} == {commit.context.span_id}


def test_the_time_to_make_each_item_is_a_span(exporter):
    for item in spans.each("read", iter("ab")):
        with spans.span("compute", query=item):
            pass
    names = [each.name for each in exporter.get_finished_spans()]
    assert names == ["pkray.read", "pkray.compute"] * 2 + ["pkray.read"]
    assert all(each.parent is None for each in exporter.get_finished_spans())


def test_one_span_lasts_over_all_items_and_not_over_what_is_done_with_them(exporter):
    def made() -> Iterator[int]:
        for number in range(2):
            with spans.span("split", bucket=number):
                yield number

    for number in spans.over("scan", made(), table="shop.stock"):
        with spans.span("compute", query=number):
            assert "table" not in spans.here()
    *others, scan = exporter.get_finished_spans()
    parents = {each.name: each.parent for each in others}
    assert parents["pkray.compute"] is None
    assert parents["pkray.split"].span_id == scan.context.span_id
    assert {each.attributes.get("pkray.table") for each in others} == {None, "shop.stock"}


def test_a_span_over_items_goes_on_in_other_threads(exporter):
    items = spans.over("scan", iter("ab"))
    with spans.span("run"):
        next(items)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(list, items).result(60) == ["b"]
    made = finished(exporter)
    assert made["pkray.scan"].parent.span_id == made["pkray.run"].context.span_id


def test_an_item_that_cannot_be_made_is_an_error_of_the_span(exporter):
    def made() -> Iterator[int]:
        yield 1
        raise ValueError("4711")

    with pytest.raises(ValueError, match="4711"):
        list(spans.over("scan", made()))
    assert not finished(exporter)["pkray.scan"].status.is_ok
    assert len(finished(exporter)["pkray.scan"].events) == 1


def test_one_who_stops_reading_ends_the_span_without_an_error(exporter):
    items = spans.over("scan", iter("ab"))
    next(items)
    items.close()
    assert finished(exporter)["pkray.scan"].status.is_unset


def test_a_span_over_items_is_below_what_another_process_has_written(exporter):
    with spans.span("scan", table="shop.stock"):
        sent = spans.envelope()
    assert list(spans.over("task", iter("ab"), sent)) == ["a", "b"]
    made = finished(exporter)
    assert made["pkray.task"].parent.span_id == made["pkray.scan"].context.span_id
    assert made["pkray.task"].attributes == {"pkray.table": "shop.stock"}


def test_a_field_that_is_none_says_nothing(exporter):
    with spans.within(table="shop.stock"), spans.span("changes", table=None, bucket=None):
        pass
    assert finished(exporter)["pkray.changes"].attributes == {"pkray.table": "shop.stock"}


def test_an_envelope_carries_the_span_and_the_fields(exporter):
    with spans.span("commit", table="shop.stock", session=SessionId("etl", 2, 5)):
        sent = spans.envelope()
    with spans.resumed(sent), spans.span("prepare"):
        pass
    made = finished(exporter)
    prepare, commit = made["pkray.prepare"], made["pkray.commit"]
    assert prepare.context.trace_id == commit.context.trace_id
    assert prepare.parent.span_id == commit.context.span_id
    assert prepare.attributes == {"pkray.table": "shop.stock", "pkray.session": "etl/2/5"}


@pytest.mark.parametrize("sent", [None, "", "{", '{"traceparent": 3}', '{"traceparent": "00-x"}'])
def test_an_envelope_that_cannot_be_read_says_nothing(exporter, sent):
    with spans.resumed(sent), spans.span("prepare"):
        pass
    assert finished(exporter)["pkray.prepare"].parent is None


def test_other_names_in_an_envelope_are_no_fields(exporter):
    with spans.resumed('{"fields": {"table": "t", "row": "Ann"}}'), spans.span("prepare"):
        pass
    assert finished(exporter)["pkray.prepare"].attributes == {"pkray.table": "t"}


def test_an_envelope_of_logs_alone_has_fields_and_no_span(logged):
    with spans.span("commit", table="shop.stock"):
        sent = spans.envelope()
    assert sent is not None
    assert "traceparent" not in sent
    with spans.resumed(sent):
        assert spans.here() == {"table": "shop.stock"}


def test_nothing_is_sent_of_no_work(logged):
    assert spans.envelope() is None


def test_nothing_is_kept_while_nobody_asked():
    with spans.span("commit", table="shop.stock"):
        assert (spans.here(), spans.envelope()) == ({}, None)
    with spans.resumed('{"fields": {"table": "shop.stock"}}'):
        assert spans.here() == {}
    items = iter("ab")
    assert spans.each("read", items) is items
    assert spans.over("scan", items, table="shop.stock") is items
    assert spans.carried(len) is len
