"""OVERWRITE snapshots in changes."""

import pyarrow as pa
import pytest
from change_samples import Follower, changes_of, create, put, state_at

from pkray.errors import SnapshotNotFoundError


def replaced(table, rows):
    data = [{"k": key, "v": value} for key, value in rows.items()]
    table.overwrite(pa.Table.from_pylist(data, table.arrow_schema), {})


def overwritten(tmp_path, **options):
    catalog = create(tmp_path, {key.replace("_", "-"): value for key, value in options.items()})
    table = catalog.load_table("db.t")
    put(table, {1: "a", 2: "b", 3: "c"})
    table.compact()
    before = table.latest_snapshot().id
    replaced(table, {2: "b", 3: "d", 4: "e"})
    return table, before + 1


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_overwrites_are_left_out(tmp_path, producer):
    table, number = overwritten(tmp_path, changelog_producer=producer)
    assert table.changelog(number, number).num_rows == 0


@pytest.mark.parametrize("producer", ["none", "input"])
def test_what_was_removed_goes_before_what_was_added(tmp_path, producer):
    options = {"changelog_producer": producer, "streaming-read-overwrite": "true"}
    table, number = overwritten(tmp_path, **options)
    found = changes_of(table.changelog_batches(number, number))
    assert sorted(found[:3]) == [("-D", 1, "a"), ("-D", 2, "b"), ("-D", 3, "c")]
    assert sorted(found[3:]) == [("+I", 2, "b"), ("+I", 3, "d"), ("+I", 4, "e")]
    put(table, {1: "z"}, [2])
    table.compact()
    refresher = Follower()
    last = table.latest_snapshot().id
    with table.stream(from_snapshot=1, until_snapshot=last) as stream:
        refresher.follow(stream)
    assert refresher.state == state_at(table)


def test_normalised_an_overwrite_is_a_difference(tmp_path):
    table, number = overwritten(tmp_path)
    found = changes_of(table.changelog_batches(number, number, normalize=True))
    assert sorted(found) == sorted([("-D", 1, "a"), ("-U", 3, "c"), ("+U", 3, "d"), ("+I", 4, "e")])


def test_rescaling_changes_no_rows(tmp_path):
    with create(tmp_path, {}) as catalog:
        table = catalog.load_table("db.t")
        put(table, dict.fromkeys(range(20), "a"))
        table.rescale(5)
        number = table.latest_snapshot().id
        assert table.snapshot(number).commit_kind == "OVERWRITE"
        assert table.changelog(number, number, normalize=True).num_rows == 0
        put(table, {3: "b"})
        found = changes_of(table.changelog_batches(number + 1, normalize=True))
        assert found == [("-U", 3, "a"), ("+U", 3, "b")]


@pytest.mark.parametrize("write_only", ["false", "true"])
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_rows_that_no_changelog_has_told_of_are_told_before_a_rescale(
    tmp_path, producer, write_only
):
    with create(tmp_path, {"changelog-producer": producer, "write-only": write_only}) as catalog:
        table = catalog.load_table("db.t")
        put(table, dict.fromkeys(range(20), "a"))
        put(table, {3: "b"}, [4])
        table.rescale(5)
        put(table, {5: "c"}, [6])
        table.compact_dedicated(full=True)
        refresher = Follower(complete=True)
        refresher.follow(table.stream(from_snapshot=1, until_snapshot=table.latest_snapshot().id))
        assert refresher.state == state_at(table)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_normalised_an_overwrite_is_told_beside_complete_changelogs(tmp_path, producer):
    table, number = overwritten(tmp_path, changelog_producer=producer)
    found = changes_of(table.changelog_batches(number, number, normalize=True))
    assert sorted(found) == sorted([("-D", 1, "a"), ("-U", 3, "c"), ("+U", 3, "d"), ("+I", 4, "e")])
    put(table, {4: "f"}, [2])
    table.compact()
    refresher = Follower(complete=True)
    refresher.follow(table.changelog_batches(normalize=True))
    assert refresher.state == state_at(table)


def test_dropped_partitions_are_told_of(tmp_path):
    options = {"streaming-read-overwrite": "true"}
    with create(tmp_path, {}) as catalog:
        table = catalog.create_table(
            "db.p",
            [("dt", "STRING"), ("k", "BIGINT"), ("v", "STRING")],
            primary_keys=["dt", "k"],
            partition_keys=["dt"],
            options={"bucket": "1", **options},
        )
        table.upsert([{"dt": dt, "k": 1, "v": dt} for dt in "ab"])
        table.drop_partitions([{"dt": "a"}])
        found = table.changelog(2).to_pylist()
        assert [(row["_row_kind"], row["dt"]) for row in found] == [("-D", "a")]


def test_what_an_overwrite_replaced_must_be_there(tmp_path):
    table, number = overwritten(tmp_path, **{"streaming-read-overwrite": "true"})
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(SnapshotNotFoundError, match=f"snapshot {number - 1}.*has expired"):
        table.changelog(number)


OUTLIVING = {"changelog.num-retained.max": "30", "changelog.num-retained.min": "20"}


def ids(table, **how):
    return sorted(set(table.changelog(**how)["_snapshot_id"].to_pylist()))


@pytest.mark.parametrize("producer", ["none", "input"])
@pytest.mark.parametrize("options", [{}, OUTLIVING], ids=["changelogs expire", "they outlive"])
def test_changes_begin_after_an_overwrite_that_cannot_be_told(tmp_path, producer, options):
    options = {"changelog-producer": producer, "streaming-read-overwrite": "true", **options}
    options["num-sorted-run.compaction-trigger"] = "20"
    with create(tmp_path, options) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "one"})
        put(table, {2: "two"})
        replaced(table, {3: "three"})
        put(table, {4: "four"})
        assert ids(table) == [1, 2, 3, 4]
        for kept, found in ((3, [2, 3, 4]), (2, [4]), (1, [4])):
            table.expire_snapshots(retain_max=kept, retain_min=kept)
            is_told = kept == 3 and "changelog.num-retained.max" in options
            assert ids(table) == ([1, 2, 3, 4] if is_told else found)
        with pytest.raises(SnapshotNotFoundError):
            table.changelog(from_snapshot=3)
        if "changelog.num-retained.max" in options:
            assert ids(table, to_snapshot=2) == [1, 2]
        put(table, {5: "five"})
        assert ids(table) == [4, 5]


def test_an_overwrite_that_replaced_nothing_is_told_by_its_changelog(tmp_path):
    with create(tmp_path, {"streaming-read-overwrite": "true", **OUTLIVING}) as catalog:
        table = catalog.load_table("db.t")
        replaced(table, {1: "one"})
        put(table, {2: "two"})
        table.expire_snapshots(retain_max=1, retain_min=1)
        assert ids(table) == [1, 2]


def test_a_consumer_keeps_what_an_overwrite_may_replace(tmp_path):
    options = {"streaming-read-overwrite": "true"}
    with create(tmp_path, options) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "a"})
        put(table, {1: "b"})
        with table.stream("c", from_snapshot=1, until_snapshot=2) as stream:
            list(stream)
        replaced(table, {2: "c"})
        table.expire_snapshots(retain_max=1, retain_min=1)
        with table.stream("c", until_snapshot=3) as stream:
            assert changes_of(stream) == [("-D", 1, "b"), ("+I", 2, "c")]
        assert state_at(table) == {2: "c"}
