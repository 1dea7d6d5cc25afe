"""What a query is about to read stays, whenever an expiry looks who reads."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pkray
from pkray.errors import SnapshotNotFoundError
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.expiry_journal import ExpiryJournal
from pkray.metadata.consumers import ConsumerStore
from pkray.relational.continuous.feeds.feed import NOTHING
from pkray.relational.continuous.feeds.table_feed import TableFeed
from pkray.relational.sources.table import TableSource

PLACES = {
    "before it looks": (ConsumerStore, "list"),
    "before it is written down": (ExpiryJournal, "begin"),
    "before anything is deleted": (SnapshotExpirer, "_delete_snapshots"),
}
TOLD = 4


@pytest.fixture
def table(tmp_path) -> Iterator[pkray.Table]:
    """Give a table whose changelog tells of all up to a snapshot that is not the newest."""
    with pkray.connect(tmp_path) as catalog:
        options = {"changelog-producer": "full-compaction", "write-only": "true"}
        made = catalog.create_table(
            "default.t", [("k", "INT"), ("v", "INT")], ["k"], options=options
        )
        for number in range(3):
            made.upsert([{"k": number, "v": number}])
        made.compact(full=True)
        made.upsert([{"k": 1, "v": 7}])
        made.upsert([{"k": 2, "v": 8}])
        yield made


@pytest.fixture
def meanwhile(monkeypatch) -> Callable[[str, Callable[[], Any]], None]:
    """Have something happen once at a place of an expiry."""

    def plan(place: str, work: Callable[[], Any]) -> None:
        kind, name = PLACES[place]
        real = getattr(kind, name)

        def first(*args: Any, **kwargs: Any) -> Any:
            monkeypatch.setattr(kind, name, real)
            work()
            return real(*args, **kwargs)

        monkeypatch.setattr(kind, name, first)

    return plan


def rows(feed: TableFeed, until: int) -> list[tuple[Any, ...]]:
    names = feed.source.fields.names
    view = feed._at(until).to_batches(list(names))
    return sorted(tuple(row.values()) for batch in view for row in batch.to_pylist())


@pytest.mark.parametrize("place", PLACES)
def test_what_is_read_first_does_not_expire(table, meanwhile, place):
    feed = TableFeed(TableSource(table))
    assert feed.newest() == TOLD
    meanwhile(place, lambda: feed.hold("query-q", NOTHING))
    table.expire_snapshots(retain_max=1)
    table.expire_snapshots(retain_max=1)
    if feed.newest() == NOTHING:  # the expiry was faster: the next one of which all is told
        table.compact(full=True)
    told = feed.newest()
    assert told == (7 if place == "before anything is deleted" else TOLD)
    table.expire_snapshots(retain_max=1)
    expected = [(0, 0), (1, 7), (2, 8)] if told > TOLD else [(0, 0), (1, 1), (2, 2)]
    assert rows(feed, told) == expected


@pytest.mark.parametrize("place", PLACES)
def test_an_expiry_that_found_a_reader_is_ended_when_that_has_gone_on(table, meanwhile, place):
    feed = TableFeed(TableSource(table))
    meanwhile(place, lambda: feed.hold("query-q", NOTHING))
    reports = [table.expire_snapshots(retain_max=1) for _ in range(2)]
    if place != "before anything is deleted":
        assert reports[0].held_by == ("query-q",)
    feed.hold("query-q", 6)
    table.expire_snapshots(retain_max=1)
    assert table.snapshots()["snapshot_id"].to_pylist() == [6]


def test_a_table_that_tells_of_nothing_any_more_is_held_from_now_on(table):
    table.expire_snapshots(retain_max=1)
    feed = TableFeed(TableSource(table))
    feed.hold("query-q", NOTHING)
    assert feed.newest() == NOTHING
    table.compact(full=True)
    assert rows(feed, feed.newest()) == [(0, 0), (1, 7), (2, 8)]


def test_a_place_that_an_expiry_takes_away_is_refused(table, meanwhile):
    feed, found = TableFeed(TableSource(table)), []

    def hold() -> None:
        with pytest.raises(SnapshotNotFoundError) as caught:
            feed.hold("query-q", 2)
        found.append(caught.value)
        feed.let_go("query-q")

    meanwhile("before anything is deleted", hold)
    table.expire_snapshots(retain_max=1)
    assert "expired before query reader query-q could hold it" in str(found[0])
