"""What Prometheus' own client reads of the text is what was collected."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pkray.metrics import exposition, names
from pkray.metrics.collection import Distribution


def read(collected):
    return {
        each.name: each for each in text_string_to_metric_families(exposition.to_text(collected))
    }


def test_kind_and_help_are_read():
    family = read({names.TABLE_ROWS.name: {("a.t",): 1.0}})[names.TABLE_ROWS.name]
    assert (family.type, family.documentation) == ("gauge", names.TABLE_ROWS.help)


@pytest.mark.parametrize("value", [0, 7, 1.5, 1e-9, 2.0**53, 123456789.125, float("inf")])
def test_a_value_is_read_exactly(value):
    (sample,) = read({names.TABLE_ROWS.name: {("a.t",): value}})[names.TABLE_ROWS.name].samples
    assert sample.value == value


@pytest.mark.parametrize(
    "name",
    ["shop.orders", 'a."quoted"', "a.back\\slash", "a.two\nlines", "a.\u00fc\u4e16", 'x="1"} 5'],
)
def test_any_text_is_a_label_and_nothing_else(name):
    (sample,) = read({names.TABLE_ROWS.name: {(name,): 1.0}})[names.TABLE_ROWS.name].samples
    assert sample.labels == {"table": name}


def test_a_counter_is_read_with_its_labels():
    collected = {names.STORE_REQUESTS_TOTAL.name: {("read", "ok", "embedded"): 3.0}}
    (sample,) = read(collected)["pkray_store_requests"].samples
    assert (sample.name, sample.labels, sample.value) == (
        "pkray_store_requests_total",
        {"operation": "read", "outcome": "ok", "worker": "embedded"},
        3.0,
    )


def test_buckets_of_a_histogram_hold_those_before_too():
    counts = (2, 1) + (0,) * 12 + (4,)
    collected = {names.LOOKUP_SECONDS.name: {("a.t", "w"): Distribution(counts, 12.5)}}
    samples = read(collected)[names.LOOKUP_SECONDS.name].samples
    buckets = {each.labels["le"]: each.value for each in samples if each.name.endswith("_bucket")}
    assert [buckets[bound] for bound in ("0.001", "0.0025", "60", "+Inf")] == [2, 3, 3, 7]
    rest = {each.name: each.value for each in samples if "le" not in each.labels}
    assert rest == {"pkray_lookup_seconds_sum": 12.5, "pkray_lookup_seconds_count": 7}


def test_a_metric_without_labels_has_no_braces():
    text = exposition.to_text({names.WORKER_START_TIME_SECONDS.name: {("w",): 5.0}})
    assert 'pkray_worker_start_time_seconds{worker="w"} 5\n' in text


def test_all_metrics_at_once_are_read_each_once():
    collected = {
        name: {
            ("x",) * len(metric.all_labels): Distribution((1,) * (len(metric.bounds) + 1), 1.0)
            if metric.bounds
            else 1.0
        }
        for name, metric in names.METRICS.items()
    }
    assert set(read(collected)) == {name.removesuffix("_total") for name in names.METRICS}


def test_records_are_json_with_the_same_values():
    counts = (2,) + (0,) * 13 + (1,)
    collected = {names.LOOKUP_SECONDS.name: {("a.t", "w"): Distribution(counts, 12.5)}}
    (record,) = json.loads(json.dumps(exposition.to_records(collected)))
    assert (record["count"], record["sum"]) == (3, 12.5)
    assert (record["buckets"]["0.001"], record["buckets"]["+Inf"]) == (2, 3)
