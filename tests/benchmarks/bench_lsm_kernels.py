"""The LSM tree alone: upserts and merge reads of one bucket, against the least work there could be.

    python tests/benchmarks/bench_lsm_kernels.py [--rows 10000000] [--keys bigint,string,composite]

For each kind of key, in one process and of processor time on one core: 10 commits of uniform
upserts over half as many keys, compaction on; the floor, which is one sort, one deduplication and
one Parquet write of the final rows; a merge read of two runs, and a read of one.
"""

import tempfile
import time
from collections.abc import Callable, Sequence

import harness
import numpy as np
import pyarrow as pa
from bench_keys import key_columns
from harness import parsed

from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.keys.key_groups import take
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_read import merge_read
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.schema.table_schema import KEY_PREFIX, KIND, SEQUENCE, TableSchema
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from pkray.storage.parquet import ParquetWriter

COMMITS = 10
PUSHED_ROWS = 64 << 10
VALUES = [("a", "BIGINT"), ("b", "DOUBLE"), ("s", "STRING"), ("ts", "TIMESTAMP(6)")]
KEYS = {
    "bigint": [("k", "BIGINT NOT NULL")],
    "string": [("k", "STRING NOT NULL")],
    "composite": [("k", "INT NOT NULL"), ("k2", "STRING NOT NULL")],
}
MADE = {"bigint": "BIGINT", "string": "STRING(16) random", "composite": "(INT, STRING)"}
"""What `key_columns` calls them."""


def incoming(kind: str, rows: int) -> list[pa.RecordBatch]:
    names = [name for name, _ in KEYS[kind] + VALUES]
    made = []
    for table in harness.batches(rows, rows // 2, rows // COMMITS):
        numbers, *values = (column.combine_chunks() for column in table.columns)
        kinds = pa.array(np.zeros(table.num_rows, np.int8))
        columns = [*key_columns(MADE[kind], numbers.to_numpy()), *values, kinds]
        made.append(pa.RecordBatch.from_arrays(columns, names=[*names, KIND]))
    return made


def upsert(schema: TableSchema, files: DataFileStore, batches: Sequence[pa.RecordBatch]) -> Levels:
    levels = Levels()
    for rows in batches:
        writer = BucketWriter(schema, files, levels)
        for start in range(0, rows.num_rows, PUSHED_ROWS):
            writer.write(rows.slice(start, PUSHED_ROWS))
        message = writer.prepare_commit()
        levels = levels.apply((), message.new_files)
        levels = levels.apply(message.compact_before, message.compact_after)
    return levels


def floor(schema: TableSchema, store: ObjectStore, batches: Sequence[pa.RecordBatch]) -> int:
    rows = pa.concat_batches(batches)
    keys = NormalizedKeys([rows.column(name) for name in schema.trimmed_primary_keys])
    order, starts = keys.sort(stable=False)
    last = np.maximum.reduceat(order, starts)
    final = take(rows, last)
    columns = dict(zip(final.schema.names, final.columns, strict=True)) | {SEQUENCE: pa.array(last)}
    arrays = [columns[name.removeprefix(KEY_PREFIX)] for name in schema.file_schema.names]
    writer = ParquetWriter(store, "floor.parquet", schema.file_schema, schema.core)
    writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema.file_schema))
    writer.close()
    return final.num_rows


def two_runs(
    schema: TableSchema, files: DataFileStore, batches: Sequence[pa.RecordBatch]
) -> Levels:
    writer = BucketWriter(schema, files, Levels())
    for half in (batches[: COMMITS // 2], batches[COMMITS // 2 :]):
        for rows in half:
            writer.write(rows)
        writer.flush()
    return writer.levels


def compacted(schema: TableSchema, files: DataFileStore, levels: Levels) -> Levels:
    writer = BucketWriter(schema, files, levels)
    writer.compact(full=True)
    return writer.levels


def read(schema: TableSchema, files: DataFileStore, levels: Levels) -> int:
    batches = merge_read(levels.runs(), files, merge_engine(schema), schema)
    return sum(batch.num_rows for batch in batches)


def timed(work: Callable[[], object], runs: int = 1) -> tuple[float, object]:
    """The fewest processor seconds of a few runs, and the result."""
    best, result = float("inf"), None
    for _ in range(runs):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


def bench(kind: str, rows: int) -> float:
    """Print the ratios; returns rows per processor second of the upserts."""
    schema = TableSchema.create(
        KEYS[kind] + VALUES,
        [name for name, _ in KEYS[kind]],
        (),
        {"bucket": "1", "write-buffer-size": "1 gb"},
    )
    batches = incoming(kind, rows)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        files = DataFileStore(store, schema, bytes(12), 0)
        harness.reset_peak()
        held = harness.resident_bytes()
        upserting, levels = timed(lambda: upsert(schema, files, batches))
        peak = harness.peak_bytes() - held
        flooring, final = timed(lambda: floor(schema, store, batches))
        assert read(schema, files, levels) == final
        halves = two_runs(schema, files, batches)
        whole = compacted(schema, files, halves)
        merging, merged = timed(lambda: read(schema, files, halves), runs=3)
        reading, plain = timed(lambda: read(schema, files, whole), runs=3)
        assert merged == plain == final
    print(
        f"{kind:>9}: upserts {rows / upserting / 1e6:5.2f} M rows/s, floor "
        f"{rows / flooring / 1e6:5.2f}, ratio {flooring / upserting:4.2f}, peak over the input "
        f"{peak / 2**20:4.0f} MB; merge read of {len(halves.runs())} runs / one run "
        f"{reading / merging:4.2f}"
    )
    return rows / upserting


def main() -> None:
    arguments = parsed(__doc__, rows=10_000_000, keys="bigint,string,composite")
    pa.set_cpu_count(1)
    speeds = {kind: bench(kind, arguments.rows) for kind in arguments.keys.split(",")}
    for kind in speeds.keys() - {"bigint"}:
        if "bigint" in speeds:
            print(f"{kind:>9} keys / bigint keys: {speeds[kind] / speeds['bigint']:4.2f}")


if __name__ == "__main__":
    main()
