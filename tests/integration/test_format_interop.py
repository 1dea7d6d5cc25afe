"""Metadata against pypaimon-rust: its files read here, files written here read there."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from pkray.format import manifest, paths
from pkray.format.binary_row import decode
from pkray.format.bucket import assign_buckets
from pkray.format.data_file import ManifestEntry, SimpleStats
from pkray.format.partition import PartitionSpec
from pkray.format.snapshot import Snapshot
from pkray.format.snapshot import decode as decode_snapshot
from pkray.format.snapshot import encode as encode_snapshot
from pkray.format.stats import StatsCollector
from pkray.schema.table_schema import TableSchema
from tests.unit.format.test_partition import partition_of

datafusion = pytest.importorskip("pypaimon_rust.datafusion")

CREATE = """
create table paimon.db.t (
  k bigint not null, s string, dt date not null, h boolean not null, d decimal(6, 2) not null,
  p timestamp not null, r string not null, big decimal(20, 2), f double, t9 timestamp(9),
  primary key (k, dt, h, d, p, r)
) partitioned by (dt, h, d, p, r) with ('bucket' = '3')
"""
INSERT = """
insert into paimon.db.t values
  (1, 'a string of more than sixteen', date '2024-01-02', true, 1.50,
   timestamp '2024-01-01 00:00:00', 'a b/c', -12.34, 1.5, timestamp '2024-01-01 00:00:00.123'),
  (2, null, date '1969-12-31', false, -0.05,
   timestamp '1969-12-31 23:59:59.5', '', 99999999.99, null, null),
  (3, 'b', date '1969-12-31', false, -0.05,
   timestamp '1969-12-31 23:59:59.5', 'é', null, -0.0, null)
"""
FILTERS = [
    ("k >= 2", [2, 3]),
    ("s > 'a'", [1, 3]),
    ("s is null", [2]),
    ("s < 'a string of more than z'", [1]),
    ("dt < date '1970-01-01'", [2, 3]),
    ("h", [1]),
    ("d = -0.05", [2, 3]),
    ("p < timestamp '1970-01-01 00:00:00'", [2, 3]),
    ("r = 'é'", [3]),
    ("big < 0", [1]),
    ("big = cast(99999999.99 as decimal(20, 2))", [2]),
    ("f > 1", [1]),
    ("t9 > timestamp '2024-01-01 00:00:00.122999999'", [1]),
    ("t9 > timestamp '2024-01-01 00:00:00.123'", []),
]


class Written:
    """A table of three rows that pypaimon-rust wrote."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        for statement in ("create schema paimon.db", CREATE, INSERT):
            self.sql(statement)
        self.root = warehouse / "db.db" / "t"
        self.schema = TableSchema.from_json(self.read("schema/schema-0"), path="schema-0")
        self.spec = PartitionSpec(self.schema)

    def sql(self, statement: str) -> Any:
        """Run by a reader that has seen nothing of the table yet."""
        context = datafusion.SQLContext()
        context.register_catalog("paimon", {"warehouse": str(self.warehouse)})
        return context.sql(statement)

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def write(self, path: str, data: bytes) -> int:
        (self.root / path).write_bytes(data)
        return len(data)

    def snapshot(self) -> Snapshot:
        return decode_snapshot(self.read("snapshot/snapshot-1"), "snapshot-1")

    def manifests(self) -> list[manifest.ManifestFileMeta]:
        name = self.snapshot().delta_manifest_list
        return manifest.read_manifest_list(self.read(paths.manifest(name)), name)

    def entries(self) -> list[ManifestEntry]:
        return [
            entry
            for meta in self.manifests()
            for entry in manifest.read_manifest(
                self.read(paths.manifest(meta.file_name)), meta.file_name, meta.file_size
            )
        ]

    def select(self, what: str) -> list[dict[str, Any]]:
        batches = self.sql(f"select {what}")
        return [row for batch in batches for row in pa.record_batch(batch).to_pylist()]


@pytest.fixture
def table(tmp_path: Path) -> Written:
    return Written(tmp_path)


def test_folders_of_partitions_and_buckets(table: Written) -> None:
    here = {
        paths.data_file(table.spec.path(entry.partition), entry.bucket, entry.file.file_name)
        for entry in table.entries()
    }
    there = {str(each.relative_to(table.root)) for each in table.root.rglob("data-*.parquet")}
    assert here == there


def test_keys_partitions_and_buckets(table: Written) -> None:
    keys = {1: "a b/c", 2: "", 3: "é"}
    entries = table.entries()
    kinds = table.schema.types(["k"])
    for entry in entries:
        (found,) = decode([entry.file.min_key], kinds)
        key = found[0].as_py()
        values = table.spec.to_dict(entry.partition)
        assert values["r"] == keys.pop(key)
        assert partition_of(table.spec, values) == entry.partition
        assert assign_buckets([found], kinds, 3).tolist() == [entry.bucket]
    assert keys == {}


def stats_of(table: Written, rows: pa.Table, entry: ManifestEntry) -> SimpleStats:
    (key,) = decode([entry.file.min_key], table.schema.types(["k"]))
    collector = StatsCollector(table.schema.names, table.schema.types(table.schema.names))
    collector.update(rows.filter(pc.field("k") == key[0]))
    return collector.finish()


def test_statistics_of_the_same_rows(table: Written) -> None:
    names = table.schema.names
    rows = pa.Table.from_pylist(table.select("* from paimon.db.t"), table.schema.arrow_schema)
    for entry in table.entries():
        ours, theirs = stats_of(table, rows, entry), entry.file.value_stats
        assert ours.null_counts == theirs.null_counts
        for mine, other in (
            (ours.min_values, theirs.min_values),
            (ours.max_values, theirs.max_values),
        ):
            columns = dict(
                zip(names, decode([mine, other], table.schema.types(names)), strict=True)
            )
            del columns["t9"]  # it has none of nanoseconds
            assert {name: column[0].as_py() for name, column in columns.items()} == {
                name: column[1].as_py() for name, column in columns.items()
            }


def test_metadata_written_here_is_read_there(table: Written) -> None:
    before = table.select("* from paimon.db.t order by k")
    rows = pa.Table.from_pylist(before, table.schema.arrow_schema)
    snapshot = table.snapshot()
    entries = [
        replace(each, file=replace(each.file, value_stats=stats_of(table, rows, each)))
        for each in table.entries()
    ]
    (meta,) = table.manifests()
    size = table.write(paths.manifest(meta.file_name), manifest.write_manifest(entries))
    rewritten = manifest.ManifestFileMeta(
        file_name=meta.file_name,
        file_size=size,
        num_added_files=3,
        num_deleted_files=0,
        partition_stats=meta.partition_stats,
        schema_id=0,
    )
    table.write(
        paths.manifest(snapshot.delta_manifest_list), manifest.write_manifest_list([rewritten])
    )
    table.write(paths.manifest(snapshot.base_manifest_list), manifest.write_manifest_list([]))
    table.write("snapshot/snapshot-1", encode_snapshot(snapshot))
    assert table.select("* from paimon.db.t order by k") == before
    for condition, keys in FILTERS:
        found = table.select(f"k from paimon.db.t where {condition} order by k")
        assert [row["k"] for row in found] == keys, condition
