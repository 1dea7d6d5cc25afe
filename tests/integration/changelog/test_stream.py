"""A stream's ends: where it begins and stops, what it waits for, how a consumer keeps its place."""

import json
import logging
import pickle
import threading
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from change_samples import Follower, changes_of, create, put, state_at

import pkray
from pkray.changelog import changes as changes_module
from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.changes import Changes, StreamArguments
from pkray.changelog.progress import Progress
from pkray.errors import OptionError, SnapshotNotFoundError, UnsupportedError
from pkray.format import paths
from pkray.format.snapshot import encode, replace
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store

START = 1_700_000_000_000
"""Snapshot n is of START + 1000 n, with the watermark 100 n."""


def root(warehouse) -> ObjectStore:
    return open_store(f"{warehouse}/db.db/t")


@pytest.fixture
def table(tmp_path):
    """Five snapshots; the nth put n and 0."""
    with create(tmp_path, {"num-sorted-run.compaction-trigger": "50", "bucket": "1"}) as catalog:
        table = catalog.load_table("db.t")
        for number in range(1, 6):
            put(table, {number: "own", 0: f"at {number}"}, watermark=100 * number)
        store = root(tmp_path)
        for snapshot in SnapshotStore(store).all():
            at = START + 1000 * snapshot.id
            store.write(paths.snapshot(snapshot.id), encode(replace(snapshot, time_millis=at)))
        yield catalog.load_table("db.t")


def changed_by(number):
    return sorted([("+I", number, "own"), ("+I", 0, f"at {number}")])


def stream_of(table, wait, **arguments):
    store = table.location.open()
    return Changes(table.location, store, table.schema).stream(StreamArguments(**arguments), wait)


def altered(table, **options):
    table.alter.set_options({key.replace("_", "-"): value for key, value in options.items()})
    return table


def given(stream):
    with stream:
        return changes_of(stream)


def test_by_default_the_table_comes_first_and_then_its_changes(table):
    waits = []

    def wait(seconds):
        waits.append(seconds)
        put(table, {9: "new"})
        return False

    with stream_of(table, wait, until_snapshot=6) as stream:
        batches = list(stream)
    assert sorted(changes_of(batches[:-1])) == sorted(
        ("+I", k, v) for k, v in {**state_at(table, 5)}.items()
    )
    assert changes_of(batches[-1:]) == [("+I", 9, "new")]
    assert {b["_snapshot_id"][0].as_py() for b in batches} == {5, 6}
    assert waits == [10.0], "one look an interval"


def test_latest_gives_what_is_committed_later_alone(table):
    def wait(_):
        put(table, {9: "new"})
        return False

    found = given(stream_of(table, wait, mode="latest", until_snapshot=6))
    assert found == [("+I", 9, "new")]


def test_an_empty_table_is_streamed_from_its_first_snapshot(tmp_path):
    with create(tmp_path, {}) as catalog:
        table = catalog.load_table("db.t")

        def wait(_):
            put(table, {1: "a"})
            return False

        assert given(stream_of(table, wait, until_snapshot=1)) == [("+I", 1, "a")]


def test_compacted_full_waits_for_a_compaction_and_gives_what_it_left(table):
    def wait(_):
        table.compact()
        put(table, {9: "new"})
        return False

    found = given(stream_of(table, wait, mode="compacted-full", until_snapshot=7))
    assert sorted(found) == sorted(
        [*(("+I", k, v) for k, v in state_at(table, 6).items()), ("+I", 9, "new")]
    )


@pytest.mark.parametrize(
    ("after", "first"), [(0, 1), (1000, 1), (1001, 2), (4000, 4), (4999, 5), (9000, 6)]
)
def test_from_a_time_is_from_the_first_snapshot_of_then_or_later(table, after, first):
    stream = table.stream(from_timestamp=START + after, until_snapshot=5)
    assert sorted(given(stream)) == sorted(c for n in range(first, 6) for c in changed_by(n))
    zoned = datetime.fromtimestamp((START + after) / 1000, UTC)
    assert given(table.stream(from_timestamp=zoned, until_snapshot=5)) == given(
        table.stream(from_timestamp=START + after, until_snapshot=5)
    )


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"scan.snapshot-id": "4"}, 4),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "3"}, 3),
        ({"scan.timestamp-millis": str(START + 3000)}, 3),
        ({"scan.mode": "from-timestamp", "scan.timestamp-millis": str(START + 2001)}, 3),
    ],
)
def test_the_tables_options_say_where_a_stream_begins(table, options, first):
    altered(table, **options)
    found = given(table.stream(until_snapshot=5))
    assert sorted(found) == sorted(c for n in range(first, 6) for c in changed_by(n))


def test_arguments_win_over_the_tables_options(table):
    altered(table, **{"scan.mode": "from-snapshot", "scan.snapshot-id": "3"})
    found = given(table.stream(from_snapshot=5, until_snapshot=5))
    assert sorted(found) == changed_by(5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "sideways"},
        {"mode": "from-snapshot"},
        {"mode": "from-timestamp"},
        {"mode": "latest", "from_snapshot": 3},
        {"from_snapshot": 3, "from_timestamp": START},
        {"poll_interval": 0},
        {"consumer_id": "c", "consumer_mode": "twice"},
    ],
)
def test_contradictions_are_refused(table, arguments):
    with pytest.raises(OptionError):
        table.stream(**arguments)


@pytest.mark.parametrize("key", ["scan.tag-name", "scan.watermark"])
def test_a_stream_does_not_begin_at_a_tag_or_watermark(table, key):
    altered(table, **{key: "7"})
    with pytest.raises(OptionError, match=key):
        table.stream()


def test_a_watermark_ends_a_stream_before_it_is_passed(table):
    found = given(table.stream(from_snapshot=2, until_watermark=300))
    assert sorted(found) == sorted(changed_by(2) + changed_by(3))
    altered(table, **{"scan.bounded.watermark": "200"})
    assert sorted(given(table.stream(from_snapshot=1))) == sorted(changed_by(1) + changed_by(2))


def test_columns_and_a_filter_apply_to_changes(table):
    stream = table.stream(from_snapshot=2, until_snapshot=4, columns=["v"], filter="k > 0")
    assert stream.schema.names == ["_row_kind", "_snapshot_id", "v"]
    with stream:
        rows = pa.Table.from_batches(stream, stream.schema)
    assert rows.to_pydict() == {
        "_row_kind": ["+I"] * 3,
        "_snapshot_id": [2, 3, 4],
        "v": ["own"] * 3,
    }


def test_a_table_a_snapshot(table):
    with table.stream(from_snapshot=1, until_snapshot=3) as stream:
        found = [each["_snapshot_id"].unique().to_pylist() for each in stream.tables()]
    assert found == [[1], [2], [3]]


def test_closing_wakes_who_waits_at_once(table):
    stream = table.stream(mode="latest", poll_interval=3600)
    ended = threading.Event()

    def follow():
        assert list(stream) == []
        ended.set()

    thread = threading.Thread(target=follow)
    thread.start()
    stream.close()
    assert ended.wait(120)
    thread.join()
    assert list(stream) == []


def test_a_gap_says_from_where_there_is_something_to_read(table):
    table.expire_snapshots(retain_max=2, retain_min=2)
    with (
        pytest.raises(SnapshotNotFoundError, match="those of 4 to 5") as caught,
        table.stream(from_snapshot=2) as stream,
    ):
        next(stream)
    assert (caught.value.snapshot_id, caught.value.earliest, caught.value.latest) == (2, 4, 5)
    with pytest.raises(SnapshotNotFoundError, match="those of 4 to 5"):
        table.changelog(2)
    assert sorted(changes_of(table.changelog().to_batches())) == sorted(
        changed_by(4) + changed_by(5)
    )


def test_changelogs_that_outlive_their_snapshots_are_streamed(tmp_path):
    options = {
        "changelog-producer": "lookup",
        "snapshot.num-retained.max": "1",
        "snapshot.num-retained.min": "1",
        "changelog.num-retained.max": "100",
    }
    with create(tmp_path, options) as catalog:
        table = catalog.load_table("db.t")
        for number in range(5):
            put(table, {number: "own", 0: f"at {number}"})
        table.expire_snapshots()
        assert table.snapshots().num_rows == 1
        refresher = Follower(complete=True)
        last = table.latest_snapshot().id
        with table.stream(from_snapshot=1, until_snapshot=last) as stream:
            refresher.follow(stream)
        assert refresher.state == state_at(table)


def test_a_rollback_below_what_was_read_ends_a_stream(table):
    def wait(_):
        table.rollback_to(3)
        return False

    stream = stream_of(table, wait, from_snapshot=4)
    with stream, pytest.raises(SnapshotNotFoundError, match="rolled back to snapshot 3"):
        list(stream)


def test_a_rollback_that_grew_again_ends_a_stream_too(table):
    def wait(_):
        table.rollback_to(3)
        for number in range(4):
            put(table, {number: "another history"})
        return False

    stream = stream_of(table, wait, from_snapshot=4)
    with stream, pytest.raises(SnapshotNotFoundError, match="rolled back"):
        list(stream)


def test_a_consumer_whose_snapshots_were_rolled_back_is_told(table):
    given(table.stream("c", from_snapshot=1, until_snapshot=5))
    table.rollback_to(3)
    with pytest.raises(SnapshotNotFoundError, match="rolled back"), table.stream("c") as stream:
        next(stream)


def place(table, name="c"):
    rows = table.consumers.list().to_pylist()
    return {row["consumer_id"]: row["next_snapshot_id"] for row in rows}.get(name)


def test_a_place_moves_on_when_the_next_batch_is_asked_for(table):
    with table.stream("c", from_snapshot=2) as stream:
        next(stream)
        assert place(table) == 2
        next(stream)
        assert place(table) == 3
    assert place(table) == 3, "what was given last was not said to be done"
    with table.stream("c") as stream:
        assert next(stream)["_snapshot_id"][0].as_py() == 3
        stream.commit()
        assert place(table) == 4


def test_a_place_moves_on_while_nothing_comes(table):
    places = []

    def wait(_):
        places.append(place(table))
        return True

    given(stream_of(table, wait, consumer_id="c", from_snapshot=4))
    assert places == [6]


def test_at_least_once_records_less_often_and_loses_nothing(table):
    stream = table.stream("c", from_snapshot=1, consumer_mode="at-least-once", poll_interval=3600)
    for _ in range(4):
        next(stream)
    assert place(table) == 1, "so much is given again after a crash"
    with table.stream("c", until_snapshot=5) as again:
        assert next(again)["_snapshot_id"][0].as_py() == 1
    stream.close()
    assert place(table) == 4


def test_a_stream_begins_anew_where_an_expiry_was_faster_than_its_consumer(table, monkeypatch):
    record = Progress._record
    put(table, {7: "new"})
    made = Changes(table.location, table.location.open(), table.schema)

    def late(self, *args, **kwargs):
        monkeypatch.setattr(Progress, "_record", record)
        put(table, {8: "newer"})
        table.expire_snapshots(retain_max=1)
        record(self, *args, **kwargs)

    monkeypatch.setattr(Progress, "_record", late)
    asked = StreamArguments(consumer_id="c", until_snapshot=8)
    with made.stream(asked, lambda _: put(table, {9: "newest"}) is None) as stream:
        assert changes_of(stream)[-1] == ("+I", 9, "newest")
    assert place(table) == 9


def test_progress_is_ignored_when_asked(table):
    given(table.stream("c", from_snapshot=1, until_snapshot=5))
    with table.stream("c", from_snapshot=2, ignore_progress=True) as stream:
        assert next(stream)["_snapshot_id"][0].as_py() == 2
    assert place(table) == 2
    altered(table, **{"consumer.ignore-progress": "true", "consumer-id": "c"})
    with table.stream(from_snapshot=4) as stream:
        assert next(stream)["_snapshot_id"][0].as_py() == 4
    assert place(table) == 4


def test_the_tables_consumer_id_is_the_default(table):
    altered(table, **{"consumer-id": "own"})
    given(table.stream(from_snapshot=1, until_snapshot=3))
    assert place(table, "own") == 4


def test_a_table_that_was_not_loaded_to_the_end_is_loaded_again(tmp_path):
    with create(tmp_path, {"bucket": "4"}) as catalog:
        table = catalog.load_table("db.t")
        put(table, dict.fromkeys(range(40), "a"))
        stream = table.stream("c")
        next(stream)
        assert not stream.is_snapshot_complete
        stream.commit()
        del stream  # killed
        put(table, {1: "b"})
        table.expire_snapshots(retain_max=1, retain_min=1)
        assert table.snapshots()["snapshot_id"].to_pylist() == [1, 2], "it is held while loading"
        refresher = Follower()
        with table.stream("c", until_snapshot=2) as again:
            refresher.follow(again)
        assert refresher.state == state_at(table)
        table.expire_snapshots(retain_max=1, retain_min=1)
        assert table.snapshots()["snapshot_id"].to_pylist() == [2]


def test_a_normalising_consumer_keeps_what_was_before(table, tmp_path):
    given(table.stream("c", from_snapshot=1, until_snapshot=3, normalize=True))
    held = json.loads(root(tmp_path).read("consumer/consumer-c"))
    assert held.items() >= {"nextSnapshot": 4, "keepsFrom": 3}.items()
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.snapshots()["snapshot_id"].to_pylist() == [3, 4, 5]
    found = given(table.stream("c", until_snapshot=5, normalize=True))
    assert ("-U", 0, "at 3") in found


def test_normalising_what_expired_before_is_refused_with_a_remedy(table):
    table.expire_snapshots(retain_max=2, retain_min=2)
    with (
        table.stream(from_snapshot=4, normalize=True) as stream,
        pytest.raises(SnapshotNotFoundError, match=r"snapshot 3.*has expired"),
    ):
        next(stream)


def test_normalising_says_once_that_it_costs(table, caplog, monkeypatch):
    monkeypatch.setattr(changes_module, "_warned", set())
    with caplog.at_level(logging.WARNING, "pkray"):
        table.stream(normalize=True).close()
        table.stream(normalize=True).close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "lookup" in caplog.text


@pytest.mark.parametrize("normalize", [False, True])
def test_splits_are_read_in_other_processes(table, normalize):
    changes = Changes(table.location, table.location.open(), table.schema)
    planner, _ = changes.planner(normalize, None, None)
    splits = pickle.loads(pickle.dumps(planner.changes(table.snapshot(3))))
    found = changes_of(batch for split in splits for batch in split.read())
    old = [("-U", 0, "at 2"), ("+U", 0, "at 3")] if normalize else [("+I", 0, "at 3")]
    assert sorted(found) == sorted([*old, ("+I", 3, "own")])


def test_an_unknown_scan_mode_for_streams_is_refused(table):
    altered(table, **{"scan.mode": "incremental", "incremental-between": "1,3"})
    with pytest.raises(UnsupportedError, match="not read as a stream"):
        table.stream()


def test_a_history_finds_the_oldest_changes(table):
    history = ChangeHistory(table.location.open())
    assert (history.earliest_id(), history.latest().id) == (1, 5)
    assert history.last_until(START) == 0
    assert history.last_until(START + 10**9) == 5


def test_a_stream_keeps_its_columns_when_the_table_gets_others(tmp_path):
    with create(tmp_path, {}) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "a"})
        stream = table.stream(from_snapshot=1, until_snapshot=4)
        other = pkray.connect(str(tmp_path)).load_table("db.t")
        other.alter.add_column("more", "INT")
        other.alter.rename_column("v", "w")
        other.upsert([{"k": 2, "w": "b", "more": 7}])
        other.upsert([{"k": 1, "w": "c", "more": 7}])
        other.compact()
        assert changes_of(stream) == [("+I", 1, "a"), ("+I", 2, "b"), ("+I", 1, "c")]
        with other.stream(from_snapshot=1, until_snapshot=4, normalize=True) as newer:
            rows = pa.Table.from_batches(newer, newer.schema).drop_columns(["_snapshot_id"])
        assert [tuple(row.values()) for row in rows.to_pylist()] == [
            ("+I", 1, "a", None),
            ("+I", 2, "b", 7),
            ("-U", 1, "a", None),
            ("+U", 1, "c", 7),
        ]
