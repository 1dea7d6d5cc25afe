"""How far a position is behind a table: snapshots that bring no changes do not count."""

import pytest

import pkray
from pkray.relational.continuous.feeds.table_feed import TableFeed
from pkray.relational.sources.table import TableSource

PRODUCERS = ["none", "input", "lookup", "full-compaction"]


def read_table(catalog: pkray.Catalog, producer: str) -> tuple[pkray.Table, TableFeed, int]:
    """Make a table, its feed, and the position up to which it is read."""
    options = {"changelog-producer": producer, "bucket": "2"}
    table = catalog.create_table("default.t", [("k", "INT"), ("v", "INT")], ["k"], options=options)
    for number in range(3):
        table.upsert([{"k": key, "v": number} for key in range(4)])
    table.compact(full=True)
    feed = TableFeed(TableSource(table))
    return table, feed, feed.newest()


def idle_commits(table: pkray.Table) -> None:
    """Commit snapshots that bring no changes."""
    table.compact(full=True)
    with table.open_writer() as writer:
        writer.commit()
    with table.open_writer() as writer:
        writer.commit()


@pytest.mark.parametrize("producer", PRODUCERS)
def test_snapshots_without_changes_are_no_lag(catalog, producer):
    table, feed, position = read_table(catalog, producer)
    idle_commits(table)
    assert table.latest_snapshot().id > position
    assert feed.lag(position) == (0, 0.0)


@pytest.mark.parametrize("producer", PRODUCERS)
def test_changes_before_snapshots_without_any_are_the_lag(catalog, producer):
    table, feed, position = read_table(catalog, producer)
    table.upsert([{"k": 1, "v": 9}])
    table.compact(full=True)
    changed = feed.newest()
    idle_commits(table)
    snapshots, seconds = feed.lag(position)
    assert 0 < snapshots <= changed - position
    assert seconds >= 0


def test_compactions_alone_are_no_lag(catalog):
    options = {"changelog-producer": "none", "write-only": "true"}
    table = catalog.create_table("default.t", [("k", "INT"), ("v", "INT")], ["k"], options=options)
    for number in range(3):
        table.upsert([{"k": key, "v": number} for key in range(4)])
    feed = TableFeed(TableSource(table))
    position = feed.newest()
    table.compact(full=True)
    assert table.latest_snapshot().commit_kind == "COMPACT"
    assert feed.lag(position) == (0, 0.0)
    table.upsert([{"k": 1, "v": 9}])
    assert feed.lag(position)[0] > 0


def test_the_lag_of_what_was_never_read_asks_for_no_expired_snapshot(catalog):
    table, feed, newest = read_table(catalog, "none")
    for number in range(3):
        table.upsert([{"k": 1, "v": number}])
    table.expire_snapshots(retain_min=1, retain_max=1)
    assert feed.lag(0)[0] == newest + 3
