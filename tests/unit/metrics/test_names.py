"""Metrics are named as Prometheus' conventions say."""

import re

import pytest

from pkray.metrics import names
from pkray.metrics.metric import Metric
from pkray.metrics.names import METRICS

_ALL = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
_LABELS = {"table", "query", "operator", "consumer", "operation", "outcome", "use"}
"""Each is a name, or one of few words: a key or a path would make series without end."""


def test_each_constant_is_called_as_its_metric():
    constants = {name: each for name, each in vars(names).items() if isinstance(each, Metric)}
    assert {name: f"pkray_{name.lower()}" for name in constants} == {
        name: metric.name for name, metric in constants.items()
    }


@_ALL
def test_a_name_has_the_prefix_and_small_letters(metric):
    assert re.fullmatch(r"pkray(_[a-z][a-z0-9]*)+", metric.name)


@_ALL
def test_counters_alone_end_in_total(metric):
    assert (metric.kind == "counter") == metric.name.endswith("_total")


@_ALL
def test_base_units_stand_at_the_end(metric):
    if metric.unit in ("seconds", "bytes", "ratio"):
        assert metric.name.removesuffix("_total").endswith(f"_{metric.unit}")
    assert not re.search(r"_(ms|millis|kb|mb|percent)(_total)?$", metric.name)


@_ALL
def test_histograms_alone_have_growing_bounds(metric):
    assert (metric.kind == "histogram") == bool(metric.bounds)
    assert list(metric.bounds) == sorted(set(metric.bounds))


@_ALL
def test_help_is_a_sentence(metric):
    assert re.fullmatch(r"[A-Z0-9].*\.", metric.help)


@_ALL
def test_labels_are_few(metric):
    few = [label for label in metric.labels if label not in ("bucket", "level")]
    assert len(few) <= 2
    assert set(few) <= _LABELS


@_ALL
def test_what_is_shown_by_bucket_is_called_so(metric):
    assert metric.is_of_bucket == metric.name.startswith("pkray_bucket_")
