"""The changes of a query as Ray Datasets."""

import pytest

from pkray.relational import changelog

pytestmark = pytest.mark.ray


def test_each_epoch_is_a_dataset(ray_cluster):
    rows = changelog([("k", "STRING"), ("v", "BIGINT")], name="rows")
    rows.push([{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    rows.push([{"k": "a", "v": 3}])
    rows.finish()
    with rows.group_by("k").agg(n="sum(v)").stream("upsert") as stream:
        found = [dataset.take_all() for dataset in stream.to_ray()]
    assert found == [
        [
            {"_row_kind": "+I", "_epoch": 1, "k": "a", "n": 1},
            {"_row_kind": "+I", "_epoch": 1, "k": "b", "n": 2},
        ],
        [{"_row_kind": "+U", "_epoch": 2, "k": "a", "n": 4}],
    ]
