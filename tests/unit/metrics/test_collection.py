"""Collections of several processes are one."""

from pkray.metrics import collection
from pkray.metrics.collection import Distribution
from pkray.metrics.names import LOOKUP_KEYS_TOTAL, QUERY_LAG_SNAPSHOTS, TABLE_ROWS

KEYS = LOOKUP_KEYS_TOTAL.name


def test_each_process_is_a_value_of_the_label_worker():
    united = collection.of_workers({"w 0": {KEYS: {("a.t",): 1}}, "w 1": {KEYS: {("a.t",): 2}}})
    assert united == {KEYS: {("a.t", "w 0"): 1, ("a.t", "w 1"): 2}}


def test_a_metric_of_a_newer_process_is_left_out():
    assert collection.of_workers({"w": {"pkray_of_tomorrow": {(): 1.0}}}) == {}


def test_readings_of_one_series_are_added_up():
    assert collection.of([(TABLE_ROWS, ("a.t",), 1), (TABLE_ROWS, ("a.t",), 2)]) == {
        TABLE_ROWS.name: {("a.t",): 3}
    }


def test_distributions_are_added_up_bucket_by_bucket():
    one, other = Distribution((1, 0), 0.5), Distribution((2, 3), 9.0)
    assert collection.added(one, other) == Distribution((3, 3), 9.5)


def test_series_of_a_table_that_is_gone_are_left_out():
    collected = {KEYS: {("a.gone",): 1.0, ("a.t",): 1.0}}
    is_gone = collection.unless_there(["a.t"], [])
    assert collection.without(collected, is_gone) == {KEYS: {("a.t",): 1.0}}


def test_series_come_with_their_labels_in_order():
    collected = {QUERY_LAG_SNAPSHOTS.name: {("q", "b.t"): 2.0, ("q", "a.t"): 1.0}}
    assert [(labels, value) for _, labels, value in collection.series_of(collected)] == [
        ({"query": "q", "table": "a.t"}, 1.0),
        ({"query": "q", "table": "b.t"}, 2.0),
    ]
