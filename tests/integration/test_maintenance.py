"""Expiry, overwrites and orphans of a table in use, as its users and another engine see it."""

import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from pkray.errors import InputError, OptionError, SnapshotNotFoundError
from tests.integration.readers import read_with_rust

FEW = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}


def make(catalog, **options: str):
    return catalog.create_table(
        "d.t",
        [("dt", "STRING"), ("k", "BIGINT"), ("v", "STRING")],
        ["dt", "k"],
        ["dt"],
        {"bucket": "2", **options},
    )


SCHEMA = pa.schema([("dt", pa.string()), ("k", pa.int64()), ("v", pa.string())])


def rows(*cells: tuple[str, int, str]) -> pa.Table:
    named = [dict(zip(SCHEMA.names, cell, strict=True)) for cell in cells]
    return pa.Table.from_pylist(named, schema=SCHEMA)


def put(table, *cells: tuple[str, int, str]) -> None:
    table.upsert(rows(*cells))


def content(table, **moment) -> set[tuple[str, int, str]]:
    return {tuple(row.values()) for row in table.to_arrow(**moment).to_pylist()}


def by_rust(table) -> set[tuple[str, int, str]]:
    warehouse = str(Path(table.location.url).parent.parent)
    found = read_with_rust(warehouse, "d.t", columns="dt, k, v")
    return {tuple(row.values()) for row in found.to_pylist()}


def test_snapshots_expire_after_commits(catalog):
    table = make(catalog, **FEW, **{"changelog-producer": "lookup"})
    table_rows = set()
    for number in range(12):
        put(table, ("a", number, "x"), ("b", number, "y"))
        table_rows |= {("a", number, "x"), ("b", number, "y")}
    assert table.snapshots().num_rows <= 3
    assert content(table) == table_rows == by_rust(table)
    assert table.remove_orphan_files(older_than=datetime.now() + timedelta(days=1)).num_rows == 0
    with pytest.raises(SnapshotNotFoundError):
        table.to_arrow(snapshot_id=1)


def test_a_write_only_table_keeps_its_snapshots(catalog):
    table = make(catalog, **FEW, **{"write-only": "true"})
    for number in range(6):
        put(table, ("a", number, "x"))
    assert table.snapshots().num_rows == 6
    assert table.expire_snapshots().snapshots == 3


def test_expiry_by_hand(catalog):
    table = make(catalog)
    for number in range(6):
        put(table, ("a", number, "x"))
    before = table.snapshots().num_rows
    assert table.expire_snapshots().snapshots == 0
    assert table.expire_snapshots(retain_max=3).snapshots == before - 3
    report = table.expire_snapshots(retain_min=1, older_than=datetime.now() + timedelta(1))
    assert report.snapshots == 2
    assert content(table) == {("a", number, "x") for number in range(6)} == by_rust(table)
    with pytest.raises(OptionError):
        table.expire_snapshots(retain_min=5, retain_max=3)


def test_a_commit_is_not_repeated_after_its_snapshot_expired(catalog):
    table = make(catalog, **FEW)
    with table.open_writer("job") as writer:
        writer.upsert(rows(("a", 1, "once")))
        writer.commit(7)
        for number in range(8):
            put(table, ("a", 2, str(number)))
        put(table, ("a", 1, "later"))
        writer.upsert(rows(("a", 1, "once")))
        writer.commit(7)
    assert ("a", 1, "later") in content(table)


def test_readers_and_tags_beside_expiry(catalog):
    """Each snapshot has as many rows as its number of commits, or is not there; tags last."""
    table = make(catalog, **{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    put(table, ("a", 0, "x"))
    stop, problems, tagged, read = threading.Event(), [], {}, 0

    def tag() -> None:
        while not stop.is_set():
            number = len(tagged)
            try:
                tagged[f"t{number}"] = table.tags.create(f"t{number}").snapshot.id
            except SnapshotNotFoundError:
                continue
            except Exception as error:
                problems.append(error)
                return
            time.sleep(0.05)

    def write() -> None:
        for number in range(1, 40):
            put(table, ("a", number, "x"))
        stop.set()

    threads = [threading.Thread(target=work) for work in (tag, write)]
    for thread in threads:
        thread.start()
    reader = catalog.load_table("d.t")
    before = 0
    while not stop.is_set():
        try:
            found = sorted(reader.to_arrow().column("k").to_pylist())
        except SnapshotNotFoundError:
            continue
        assert found == list(range(len(found)))
        assert len(found) >= before
        before, read = len(found), read + 1
        assert reader.lookup([{"dt": "a", "k": 0}]).num_rows == 1
    for thread in threads:
        thread.join()
    assert not problems
    assert read
    for name in tagged:
        found = sorted(table.to_arrow(tag=name).column("k").to_pylist())
        assert found == list(range(len(found)))
    assert table.snapshots().num_rows == 1
    for name in tagged:
        table.tags.delete(name)
    table.compact()  # what was compacted beside the writer is committed
    assert table.remove_orphan_files(older_than=1 << 50, dry_run=True).num_rows == 0


def test_dropped_partitions_are_gone_everywhere(catalog):
    table = make(catalog)
    put(table, ("a", 1, "x"), ("b", 1, "y"), ("b", 2, "y"), ("c", 1, "z"))
    keys = [{"dt": dt, "k": 1} for dt in "abc"]
    assert table.lookup(keys).num_rows == 3
    snapshot = table.drop_partitions([{"dt": "a"}, {"dt": "b"}])
    assert snapshot.commit_kind == "OVERWRITE"
    assert content(table) == {("c", 1, "z")} == by_rust(table)
    assert table.lookup(keys).column("dt").to_pylist() == ["c"]
    put(table, ("a", 1, "again"))
    assert content(table) == {("a", 1, "again"), ("c", 1, "z")} == by_rust(table)
    assert table.lookup(keys).num_rows == 2
    assert table.compact() is None or content(table) == {("a", 1, "again"), ("c", 1, "z")}
    with pytest.raises(InputError):
        table.drop_partitions([{"k": 1}])
    with pytest.raises(OptionError):
        table.drop_partitions([{}])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
        {"merge-engine": "first-row"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "max"},
        {"changelog-producer": "lookup"},
        {"deletion-vectors.enabled": "true"},
    ],
    ids=lambda options: " ".join(options.values()) or "plain",
)
def test_overwrites(catalog, options):
    table = make(catalog, **options)
    put(table, *(("a", number, "old") for number in range(5)), ("b", 1, "old"))
    new = {("a", number, "new") for number in range(3, 9)}
    assert table.overwrite(rows(*new)).commit_kind == "OVERWRITE"
    assert content(table) == new | {("b", 1, "old")} == by_rust(table)
    put(table, ("a", 20, "put"))
    assert content(table) == new | {("b", 1, "old"), ("a", 20, "put")}
    keys = [{"dt": "a", "k": number} for number in (0, 3, 20)]
    assert table.lookup(keys).column("k").to_pylist() == [3, 20]
    table.overwrite(rows(("c", 1, "only")), {})
    assert content(table) == {("c", 1, "only")} == by_rust(table)
    table.overwrite(rows(), {"dt": "c"})
    assert content(table) == set()
    put(table, ("c", 1, "more"))
    assert content(table) == {("c", 1, "more")}
    table.expire_snapshots(retain_max=1)
    assert content(table) == {("c", 1, "more")} == by_rust(table)
    assert table.remove_orphan_files(older_than=1 << 50).num_rows == 0


def test_rows_outside_the_partition_are_refused(catalog):
    table = make(catalog)
    put(table, ("a", 1, "old"))
    with pytest.raises(InputError):
        table.overwrite(rows(("a", 1, "x"), ("b", 1, "x")), {"dt": "a"})
    assert table.overwrite(rows()) is None
    assert content(table) == {("a", 1, "old")}


def test_rows_pushed_before_an_overwrite_come_on_top(catalog):
    table = make(catalog)
    put(table, ("a", 1, "old"))
    with table.open_writer() as writer:
        writer.upsert(rows(("a", 2, "pushed")))
        table.overwrite(rows(("a", 1, "new"), ("a", 2, "new")))
        assert table.lookup([{"dt": "a", "k": 2}]).column("v").to_pylist() == ["pushed"]
        writer.commit()
    assert content(table) == {("a", 1, "new"), ("a", 2, "pushed")} == by_rust(table)


def test_partitions_expire(catalog):
    options = {
        "partition.expiration-time": "2 d",
        "partition.timestamp-formatter": "yyyyMMdd",
        "partition.expiration-check-interval": "0 ms",
    }
    table = make(catalog, **options)
    today = datetime.now()
    days = [(today - timedelta(days=age)).strftime("%Y%m%d") for age in range(6)]
    put(table, *((day, 1, "x") for day in days), ("no day", 1, "x"))
    kept = {(day, 1, "x") for day in days[:2]} | {("no day", 1, "x")}
    assert kept <= content(table) <= kept | {(days[2], 1, "x")}
    assert table.expire_partitions().num_rows == 0
    assert by_rust(table) == content(table)
