import dataclasses
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from history_samples import content, create, put, root, schema

import pkray
from pkray.errors import OptionError, SnapshotNotFoundError, TagNotFoundError, UnsupportedError
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.retention import Retention
from pkray.format import paths
from pkray.format.snapshot import encode, replace
from pkray.metadata.snapshots import SnapshotStore
from pkray.scan.moment import Moment, SnapshotFinder, epoch_millis

START = 1_700_000_000_000
"""Snapshot n is of START + 1000 n, with the watermark 100 n from snapshot 2 on."""


@pytest.fixture
def warehouse(tmp_path):
    create(tmp_path, **{"num_sorted_run.compaction_trigger": "50"})
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        for number in range(1, 6):
            watermark = 100 * number if number > 1 else None
            assert put(table, {number: "own", 0: f"at {number}"}, watermark=watermark) == number
    store = root(tmp_path)
    for snapshot in SnapshotStore(store).all():
        at = START + 1000 * snapshot.id
        store.write(paths.snapshot(snapshot.id), encode(replace(snapshot, time_millis=at)))
    return tmp_path


def rows_at(number):
    return dict.fromkeys(range(1, number + 1), "own") | {0: f"at {number}"}


@pytest.mark.parametrize(
    ("after", "number"), [(1000, 1), (1999, 1), (2000, 2), (4500, 4), (5000, 5), (10**9, 5)]
)
def test_a_time_is_the_newest_snapshot_at_or_before_it(table, after, number):
    moment = START + after
    assert content(table, timestamp=moment) == rows_at(number)
    zoned = datetime.fromtimestamp(moment / 1000, UTC)
    assert content(table, timestamp=zoned) == rows_at(number)
    assert content(table, timestamp=zoned.isoformat()) == rows_at(number)
    local = datetime.fromtimestamp(moment / 1000)
    assert content(table, timestamp=local) == rows_at(number)
    assert content(table, timestamp=str(local)) == rows_at(number)


def test_a_time_before_all_snapshots_is_an_error(table):
    with pytest.raises(SnapshotNotFoundError, match=f"the oldest is 1, of {START + 1000}"):
        table.to_arrow(timestamp=START + 999)


def test_times_are_said_for_people_too(table):
    with pytest.raises(SnapshotNotFoundError, match=r"of 129 \(1970-01-01 00:00:00\.129 UTC\) or"):
        table.to_arrow(timestamp=129)
    with pytest.raises(SnapshotNotFoundError, match="of -1000000000000000000 milliseconds or"):
        table.to_arrow(timestamp=-(10**18))


def test_a_time_of_expired_snapshots_is_an_error(table, warehouse):
    SnapshotExpirer(root(warehouse), schema(warehouse)).expire(Retention(2, 2, 0, 100))
    with pytest.raises(SnapshotNotFoundError, match="the oldest is 4"):
        table.to_arrow(timestamp=START + 3999)
    assert content(table, timestamp=START + 4000) == rows_at(4)


@pytest.mark.parametrize(("watermark", "number"), [(-5, 2), (200, 2), (201, 3), (500, 5)])
def test_a_watermark_is_the_oldest_snapshot_that_has_it(table, watermark, number):
    assert content(table, watermark=watermark) == rows_at(number)


def test_a_watermark_nobody_has_is_an_error(table):
    with pytest.raises(SnapshotNotFoundError, match="newest watermark is 500"):
        table.to_arrow(watermark=501)


def test_every_read_travels(table):
    table.tags.create("three", 3)
    expected = rows_at(3)
    for moment in ({"snapshot_id": 3}, {"tag": "three"}, {"timestamp": START + 3000}):
        assert content(table, **moment) == expected
        batches = list(table.to_batches(["k"], **moment))
        assert sorted(k for batch in batches for k in batch["k"].to_pylist()) == [0, 1, 2, 3]
        assert len(table.to_pandas(filter="k > 1", **moment)) == 2
        assert sum(split.row_count for split in table.splits(**moment)) >= 4
        assert table.explain(**moment).snapshot_id == 3
        found = table.lookup([{"k": 4}, {"k": 0}], visibility="committed", **moment)
        assert found.to_pylist() == [{"k": 0, "v": "at 3"}]


@pytest.mark.parametrize(
    "moment",
    [{"snapshot_id": 3}, {"tag": "three"}, {"timestamp": START + 3000}, {"watermark": 300}],
)
def test_a_view_reads_what_the_table_reads_by_arguments(table, moment):
    table.tags.create("three", 3)
    view, asked = table.at(**moment), (["k", "v"], "k > 0")
    rows = view.to_arrow(*asked)
    assert dict(zip(*rows.to_pydict().values(), strict=True)) == {1: "own", 2: "own", 3: "own"}
    assert rows == table.to_arrow(*asked, **moment)
    assert rows == pa.Table.from_batches(view.to_batches(*asked))
    assert view.to_pandas(*asked).equals(table.to_pandas(*asked, **moment))
    assert view.plan(*asked) == table.splits(*asked, **moment)
    assert view.explain(*asked) == table.explain(*asked, **moment)
    assert view.count(asked[1]) == rows.num_rows


def test_a_view_stays_at_its_snapshot(table):
    view = table.at()
    put(table, {0: "later", 9: "later"})
    assert view.snapshot.id == 5
    assert view.count() == len(rows_at(5))
    assert view.to_arrow(filter="k = 0")["v"].to_pylist() == ["at 5"]


def test_rows_that_were_replaced_or_deleted_do_not_count(table):
    table.delete([{"k": 1}])
    assert table.at().count() == len(rows_at(5)) - 1
    assert table.at(snapshot_id=5).count() == len(rows_at(5))
    assert table.at().count("v = 'at 4'") == 0


def test_a_view_names_one_snapshot(table):
    with pytest.raises(OptionError, match="snapshot_id=3 and tag='a' name a snapshot each"):
        table.at(3, "a")
    with pytest.raises(SnapshotNotFoundError):
        table.at(snapshot_id=6)


def test_a_view_has_its_older_names(table):
    assert table.view(tag=None, snapshot_id=2).splits() == table.at(2).plan()
    assert list(table.view(2).batches(["k"], None)) == list(table.at(2).to_batches(["k"]))


def test_a_tag_is_read_after_its_snapshot_expired(table, warehouse):
    table.tags.create("two", 2)
    SnapshotExpirer(root(warehouse), schema(warehouse)).expire(Retention(1, 1, 0, 100))
    with pytest.raises(SnapshotNotFoundError):
        table.to_arrow(snapshot_id=2)
    assert content(table, tag="two") == rows_at(2)
    keys = [{"k": 2}, {"k": 9}, {"k": 0}, {"k": 2}]
    found = table.lookup(keys, visibility="committed", tag="two", columns=["v"])
    assert found["v"].to_pylist() == ["own", "at 2", "own"]
    nothing = pa.table({"k": pa.array([], pa.int64())})
    assert table.lookup(nothing, visibility="committed", tag="two").num_rows == 0


def test_contradictions_are_refused(table):
    with pytest.raises(OptionError, match="snapshot_id=3 and tag='a' name a snapshot each"):
        table.to_arrow(snapshot_id=3, tag="a")
    with pytest.raises(OptionError, match="timestamp=5 and watermark=0"):
        table.splits(timestamp=5, watermark=0)
    with pytest.raises(OptionError, match="visibility='committed' only"):
        table.lookup([{"k": 1}], tag="a")
    with pytest.raises(OptionError, match="'yesterday' is no time"):
        table.to_arrow(timestamp="yesterday")
    with pytest.raises(OptionError, match="timestamp cannot be True"):
        table.to_arrow(timestamp=True)
    with pytest.raises(TagNotFoundError):
        table.to_arrow(tag="nothing")
    with pytest.raises(SnapshotNotFoundError):
        table.to_arrow(snapshot_id=6)


def test_a_read_of_the_past_has_the_columns_of_then(table):
    table.tags.create("before")
    table.alter.rename_column("v", "text")
    table.alter.add_column("n", "INT")
    table.upsert([{"k": 1, "text": "new", "n": 5}])
    assert table.to_arrow(filter="n = 5").to_pylist() == [{"k": 1, "text": "new", "n": 5}]
    assert table.to_arrow(tag="before", filter="v = 'at 5'").to_pylist() == [{"k": 0, "v": "at 5"}]
    found = table.lookup([{"k": 1}], visibility="committed", tag="before")
    assert found.to_pylist() == [{"k": 1, "v": "own"}]
    assert table.view(snapshot_id=5).schema.names == ("k", "v")


def optioned(warehouse, **options):
    """The table as if these options were set."""
    with pkray.connect(str(warehouse)) as catalog:
        table = catalog.load_table("db.t")
        table.alter.set_options({k.replace("_", "-"): v for k, v in options.items()})
        return content(catalog.load_table("db.t"))


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"scan.snapshot_id": "2"}, 2),
        ({"scan.timestamp_millis": str(START + 3500)}, 3),
        ({"scan.timestamp": str(datetime.fromtimestamp((START + 4000) / 1000))}, 4),
        ({"scan.watermark": "150"}, 2),
        ({"scan.tag_name": "three"}, 3),
        ({"scan.mode": "from-snapshot", "scan.snapshot_id": "1"}, 1),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot_id": "4"}, 4),
        ({"scan.mode": "from-timestamp", "scan.timestamp_millis": str(START + 2000)}, 2),
        ({"scan.mode": "latest-full"}, 5),
        ({"scan.mode": "latest"}, 5),
    ],
)
def test_the_tables_options_say_the_moment(table, warehouse, options, number):
    table.tags.create("three", 3)
    assert optioned(warehouse, **options) == rows_at(number)


def test_an_argument_comes_before_the_tables_options(warehouse):
    optioned(warehouse, **{"scan.snapshot_id": "2"})
    with pkray.connect(str(warehouse)) as catalog:
        assert content(catalog.load_table("db.t"), snapshot_id=4) == rows_at(4)


def test_compacted_full_is_what_the_last_compaction_left(table, warehouse):
    with pytest.raises(SnapshotNotFoundError, match="compaction"):
        optioned(warehouse, **{"scan.mode": "compacted-full"})
    compacted = table.compact().id
    put(table, {9: "not compacted"})
    assert compacted == 6
    assert optioned(warehouse, **{"scan.mode": "compacted-full"}) == rows_at(5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"scan.snapshot-id": "2", "scan.tag-name": "t"}, "contradict each other"),
        ({"scan.mode": "from-timestamp"}, "needs scan.timestamp-millis or scan.timestamp"),
        ({"scan.mode": "latest-full", "scan.snapshot-id": "2"}, "it takes none of them"),
        ({"scan.mode": "from-timestamp", "scan.snapshot-id": "2"}, "it takes one of"),
    ],
)
def test_options_that_contradict_each_other_are_refused(warehouse, options, says):
    core = core_with(warehouse, options)
    with pytest.raises(OptionError, match=says):
        Moment.from_arguments().or_of(core)


def test_what_is_no_whole_read_is_unsupported(warehouse):
    core = core_with(warehouse, {"scan.mode": "incremental"})
    with pytest.raises(UnsupportedError, match=r"table\.changelog"):
        Moment.from_arguments().or_of(core)
    assert Moment.from_arguments(snapshot_id=1).or_of(core) == Moment(1)


def test_milliseconds_are_exact():
    assert epoch_millis("2024-03-01T00:00:00.129+00:00") == 1709251200129
    assert epoch_millis(datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)) == -1


def test_an_empty_table_has_no_past(tmp_path):
    create(tmp_path)
    with pkray.connect(str(tmp_path)) as catalog:
        assert catalog.load_table("db.t").at().count() == 0
    store = root(tmp_path)
    finder = SnapshotFinder(store, SnapshotStore(store))
    assert finder.find(Moment()) is None
    for moment in (Moment(timestamp=5), Moment(watermark=5), Moment(compacted=True)):
        with pytest.raises(SnapshotNotFoundError):
            finder.find(moment)


def core_with(warehouse, options):
    found = schema(warehouse)
    return dataclasses.replace(found, options=found.options | options).core


@pytest.mark.parametrize("given", ["2", True, 2.0, -1])
def test_what_is_no_snapshots_id_is_said_to_be_none(table, given):
    for use in (
        lambda: table.to_arrow(snapshot_id=given),
        lambda: table.lookup([{"k": 1}], visibility="committed", snapshot_id=given),
        lambda: table.files(given),
        lambda: table.changelog(given),
        lambda: table.changelog(to_snapshot=given),
        lambda: table.tags.create("v", given),
        lambda: table.rollback_to(given),
        lambda: table.consumers.reset("c", given),
    ):
        with pytest.raises(OptionError, match=f"snapshot.* cannot be {given!r}: give a snapshot"):
            use()
    assert table.latest_snapshot().id == 5


def test_changes_that_are_to_come_are_not_silently_none(table):
    assert table.changelog(from_snapshot=6).num_rows == 0  # the next one
    with pytest.raises(SnapshotNotFoundError, match="never made"):
        table.changelog(from_snapshot=7)


def test_changes_do_not_run_backwards(table):
    assert table.changelog(4, 3).num_rows == 0
    with pytest.raises(OptionError, match="2 is older than 4: swap them"):
        table.changelog(4, 2)
