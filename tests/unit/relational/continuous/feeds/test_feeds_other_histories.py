"""A source with another history, whose newest snapshot has the number of the one before."""

import pytest

import pkray
from pkray.errors import QueryDivergedError
from pkray.relational.continuous.feeds.feeds import Feeds
from pkray.relational.plan.nodes import Scan
from pkray.relational.sources.table import TableSource


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_table_that_was_rolled_back_and_written_again_is_told_at_rest(tmp_path, producer):
    with pkray.connect(tmp_path) as catalog:
        options = {"changelog-producer": producer, "bucket": "1"}
        table = catalog.create_table("default.t", [("k", "INT")], ["k"], options=options)
        table.upsert([{"k": 1}])
        before = table.latest_snapshot().id
        table.upsert([{"k": 2}])
        feeds = Feeds({1: Scan(TableSource(table))})
        positions = {"default.t": table.latest_snapshot().id}
        marks = feeds.marks(positions)
        assert feeds.next(positions, (), marks) is None
        table.rollback_to(before, force=True)
        table = catalog.load_table("default.t")
        table.upsert([{"k": 3}])
        assert table.latest_snapshot().id == positions["default.t"]
        with pytest.raises(QueryDivergedError, match="another one now"):
            feeds.next(positions, (), marks)
