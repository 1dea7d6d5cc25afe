"""Options that change nothing, and why."""

import pytest

from pkray.options import idle_options

SUM = {"fields.v.aggregate-function": "sum"}
AGGREGATION = {"merge-engine": "aggregation"}


@pytest.mark.parametrize(
    ("options", "key", "why"),
    [
        (SUM, "fields.v.aggregate-function", "merge-engine = aggregation"),
        ({"fields.default-aggregate-function": "max"}, None, "merge-engine = aggregation"),
        ({"fields.g.sequence-group": "a,b"}, None, "merge-engine = partial-update"),
        ({"partial-update.remove-record-on-delete": "true"}, None, "= partial-update"),
        ({"changelog-producer.row-deduplicate": "true"}, None, "changelog-producer = lookup"),
        ({"lookup-wait": "false"}, None, "changelog-producer = lookup"),
        ({"sequence.field.sort-order": "descending"}, None, "needs sequence.field"),
        ({"record-level.time-field": "t"}, None, "record-level.expire-time"),
        ({"bucket": "1", "dynamic-bucket.target-row-num": "9"}, None, "bucket = -1"),
        (AGGREGATION | {"fields.v.nested-key": "a"}, "fields.v.nested-key", "= nested_update"),
        (AGGREGATION | SUM | {"fields.v.distinct": "true"}, "fields.v.distinct", "= listagg or"),
        ({"write-buffer-spillable": "true"}, None, "other engines"),
    ],
)
def test_an_option_that_changes_nothing_is_found_with_what_it_needs(options, key, why):
    ((found, reason),) = idle_options(options).items()
    assert found == (key or next(reversed(options)))
    assert why in reason


@pytest.mark.parametrize(
    "options",
    [
        AGGREGATION | SUM,
        AGGREGATION | {"fields.v.aggregate-function": "collect", "fields.v.distinct": "true"},
        AGGREGATION
        | {"fields.default-aggregate-function": "listagg", "fields.v.list-agg-delimiter": ";"},
        {"merge-engine": "partial-update", "fields.g.sequence-group": "v"} | SUM,
        {"changelog-producer": "lookup", "lookup-wait": "false"},
        {"lookup-wait": "true", "aggregation.remove-record-on-delete": "false"},
        {"bucket": "-1", "dynamic-bucket.target-row-num": "9"},
        {"path": "/somewhere", "write-only": "true", "my.engine": "1"},
    ],
)
def test_options_that_mean_something_are_let_be(options):
    assert idle_options(options) == {}
