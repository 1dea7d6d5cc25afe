"""The dedicated compaction job, beside writers, and its command."""

import json
import threading

import pyarrow as pa
import pytest

import pkray
from pkray.cli import main
from pkray.errors import InputError, StorageFullError
from pkray.lsm import data_files
from pkray.lsm.writer.prepared_messages import PreparedMessages
from tests.integration.readers import read_with_rust

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])


@pytest.fixture
def warehouse(tmp_path):
    return str(tmp_path / "warehouse")


def make(catalog: pkray.Catalog, **options: str) -> pkray.Table:
    settings = {"bucket": "2", "write-only": "true", **options}
    return catalog.create_table("db.t", SCHEMA, ["dt", "id"], ["dt"], settings)


def write(table: pkray.Table, value: str, ids: range = range(20)) -> None:
    table.upsert([{"dt": dt, "id": i, "v": value} for dt in "ab" for i in ids])


def levels(table: pkray.Table) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    for file in table.files().to_pylist():
        found.setdefault((file["partition"], file["bucket"]), []).append(file["level"])
    return {key: sorted(found[key]) for key in sorted(found)}


def content(rows: pa.Table) -> set[tuple[str, int, str]]:
    return {(row["dt"], row["id"], row["v"]) for row in rows.to_pylist()}


def test_it_compacts_what_is_due_and_then_nothing(warehouse):
    with pkray.connect(warehouse) as catalog:
        table = make(catalog)
        for number in range(5):
            write(table, f"v{number}")
        seen: list[tuple[int, int]] = []
        report = table.compact_dedicated(progress=lambda *done: seen.append(done))
        assert (report.compacted, report.dropped) == (4, 0)
        assert seen == [(n, 4) for n in range(1, 5)]
        assert set(map(tuple, levels(table).values())) == {(5,)}
        assert report.snapshot == table.latest_snapshot()
        assert table.compact_dedicated().snapshot is None
        assert content(read_with_rust(warehouse, "db.t")) == content(table.to_arrow())


def test_only_the_partitions_and_buckets_chosen(warehouse):
    with pkray.connect(warehouse) as catalog:
        table = make(catalog)
        write(table, "a")
        write(table, "b")
        assert table.compact_dedicated(full=True, partitions=[{"dt": "a"}]).compacted == 2
        assert table.compact_dedicated(full=True, partitions=[{"dt": "c"}]).compacted == 0
        assert table.compact_dedicated(full=True, buckets=[1]).compacted == 1
        assert list(levels(table).values()) == [[5], [5], [0, 0], [5]]
        with pytest.raises(InputError, match="partition columns are: dt"):
            table.compact_dedicated(partitions=[{"id": 1}])


def test_it_makes_the_lookup_changelog(warehouse):
    with pkray.connect(warehouse) as catalog:
        table = make(catalog, **{"changelog-producer": "lookup"})
        write(table, "a", range(1))
        table.compact_dedicated()
        write(table, "b", range(1))
        table.compact_dedicated()
        changes = table.changelog().select(["_row_kind", "dt", "v"]).to_pylist()
        assert [tuple(row.values()) for row in changes if row["dt"] == "a"] == [
            ("+I", "a", "a"),
            ("-U", "a", "a"),
            ("+U", "a", "b"),
        ]


def test_it_makes_the_full_compaction_changelog_when_commits_are_due(warehouse):
    options = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"}
    with pkray.connect(warehouse) as catalog:
        table = make(catalog, **options)
        write(table, "a", range(1))
        assert table.compact_dedicated().snapshot is None
        write(table, "b", range(1))
        assert table.compact_dedicated().compacted == 2
        assert set(table.changelog()["v"].to_pylist()) == {"b"}


def test_writers_go_on_beside_it(warehouse):
    with pkray.connect(warehouse) as catalog, pkray.connect(warehouse) as other:
        table = make(catalog, **{"num-sorted-run.compaction-trigger": "2"})
        stop = threading.Event()
        reports = []

        def job() -> None:
            while not stop.is_set():
                reports.append(other.load_table("db.t").compact_dedicated())

        worker = threading.Thread(target=job)
        worker.start()
        for number in range(15):
            write(table, f"v{number}", range(number, number + 5))
        stop.set()
        worker.join()
        table.compact_dedicated()
        assert sum(report.compacted for report in reports) > 0
        expected = {(dt, i, f"v{min(i, 14)}") for dt in "ab" for i in range(19)}
        assert content(table.to_arrow()) == expected
        assert content(read_with_rust(warehouse, "db.t")) == expected


def test_what_others_compacted_first_is_dropped_and_planned_again(warehouse):
    with pkray.connect(warehouse) as catalog:
        table = make(catalog)
        write(table, "a")
        write(table, "b")
        meddled = []

        def meddle(done: int, _: int) -> None:
            if done == 1 and not meddled:
                meddled.append(table.compact(full=True))
                write(table, "c")

        report = table.compact_dedicated(full=True, parallelism=1, progress=meddle)
        assert meddled[0].commit_kind == "COMPACT"
        assert report.dropped == 4
        assert report.compacted == 4
        assert {v for *_, v in content(table.to_arrow())} == {"c"}
        assert set(map(tuple, levels(table).values())) == {(5,)}


def test_a_bucket_that_fails_leaves_the_others_committed(warehouse, monkeypatch):
    with pkray.connect(warehouse) as catalog:
        table = make(catalog)
        write(table, "a")
        write(table, "b")
        plain = data_files.DataFileStore.open_run

        def failing(store, *args, **kwargs):
            if store.bucket == 1:
                raise StorageFullError("no space left", path="x")
            return plain(store, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(data_files.DataFileStore, "open_run", failing)
            with pytest.raises(StorageFullError):
                table.compact_dedicated(full=True)
        assert list(levels(table).values()) == [[5], [0, 0], [5], [0, 0]]
        table.compact_dedicated(full=True)
        assert set(map(tuple, levels(table).values())) == {(5,)}


def test_a_task_that_fails_at_its_end_leaves_no_files(warehouse, monkeypatch):
    with pkray.connect(warehouse) as catalog:
        table = make(catalog, **{"deletion-vectors.enabled": "true"})
        write(table, "a")
        write(table, "b")

        def failing(*_args):
            raise StorageFullError("no space left", path="x")

        with monkeypatch.context() as patch:
            patch.setattr(PreparedMessages, "with_vectors", failing)
            with pytest.raises(StorageFullError):
                table.compact_dedicated(full=True)
        assert not table.remove_orphan_files(2**42, dry_run=True).num_rows


def test_the_command(warehouse, capsys):
    with pkray.connect(warehouse) as catalog:
        table = make(catalog)
        write(table, "a")
        write(table, "b")
    arguments = ["compact", "db.t", "-w", warehouse, "--dedicated", "--full", "--json"]
    with pytest.raises(SystemExit) as left:
        main([*arguments, "--partition", "dt=a", "--bucket", "0"])
    assert left.value.code == 0
    assert json.loads(capsys.readouterr().out)["compacted"] == 1
    with pytest.raises(SystemExit):
        main([*arguments, "--parallelism", "2"])
    assert json.loads(capsys.readouterr().out)["compacted"] == 3
    with pytest.raises(SystemExit) as left:
        main(["compact", "db.t", "-w", warehouse, "--loop", "1"])
    assert left.value.code == 2


def test_it_expires_what_writers_leave_to_it(warehouse):
    with pkray.connect(warehouse) as catalog:
        table = make(
            catalog,
            **{
                "snapshot.num-retained.min": "1",
                "snapshot.num-retained.max": "2",
                "partition.expiration-time": "1 d",
                "partition.timestamp-formatter": "yyyy-MM-dd",
                "partition.timestamp-pattern": "$dt",
            },
        )
        for number in range(5):
            with table.open_writer() as writer:
                days = "2020-01-01", "9999-01-01"
                writer.upsert([{"dt": day, "id": 1, "v": f"{number}"} for day in days])
                writer.commit()
        assert len(table.snapshots()) == 5
        report = table.compact_dedicated(full=True)
        assert table.snapshots()["snapshot_id"].to_pylist()[:2] == [5, 6]
        assert report.snapshot.id == 6
        assert content(table.to_arrow()) == {("9999-01-01", 1, "4")}
