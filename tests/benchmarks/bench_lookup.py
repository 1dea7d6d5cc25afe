"""The lookup store alone: batches of keys in one large file, and old rows for a changelog.

python tests/benchmarks/bench_lookup.py [--keys 10000000] [--runs 20]
"""

import statistics
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from harness import SCHEMA, batches, measure, parsed
from rocksdict import Options, Rdict, WriteBatch

from pkray.format import binary_row
from pkray.lookup.bucket_lookup import BucketLookup
from pkray.lookup.local_file_cache import CopyLimits
from pkray.lookup.store import LookupStore
from pkray.lookup.store_lookup import StoreLookup
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels
from pkray.schema.table_schema import TableSchema
from pkray.storage.opening import open_store

CHANGELOG_ROWS = 5_000_000
CHANGED_KEYS = 1_000_000
CHANGE_SLICE = 131_072
ROWS_ONE_BY_ONE = 200_000
BATCH_ROWS = 131_072


def key_value_rows(count: int) -> Iterator[pa.RecordBatch]:
    """Rows with the keys 0, 2, 4 …"""
    first = 0
    for values in batches(count, count, BATCH_ROWS):
        numbers = np.arange(first, first + values.num_rows)
        first += values.num_rows
        columns = [column.combine_chunks() for column in values.columns[1:]]
        kinds = pa.array(np.zeros(len(numbers), np.int8))
        yield pa.RecordBatch.from_arrays(
            [pa.array(numbers), kinds, pa.array(numbers * 2), *columns],
            names=["_SEQUENCE_NUMBER", "_VALUE_KIND", *SCHEMA.names],
        )


class Bench:
    def __init__(self, folder: str, rows: int) -> None:
        self.schema = TableSchema.create(SCHEMA, ["k"])
        store = open_store(folder + "/table")
        self.files = DataFileStore(store, self.schema, binary_row.EMPTY_ROW, 0)
        self.engine = merge_engine(self.schema)
        self.levels = Levels(self.files.write_run(key_value_rows(rows), 5, 1))
        self.store = LookupStore(
            folder + "/lookup",
            CopyLimits(None, max_memory_bytes=256 << 20, retention_millis=3_600_000),
            clock=lambda: time.time_ns() // 1_000_000,
        )

    def look_up(self, keys: np.ndarray) -> int:
        lookup = BucketLookup(self.store, self.files, self.schema, self.engine)
        asked = pa.RecordBatch.from_arrays([pa.array(keys)], names=["k"])
        found, _ = lookup.find(self.levels, asked, SCHEMA.names)
        return len(found)

    def old_rows(self, keys: np.ndarray) -> int:
        """As a compaction asks for them: slice after slice, ascending."""
        lookup = StoreLookup(self.store, self.schema, self.files, self.engine)
        found = 0
        for first in range(0, len(keys), CHANGE_SLICE):
            some = pa.array(keys[first : first + CHANGE_SLICE])
            asked = pa.RecordBatch.from_arrays([some], names=["k"])
            found += lookup.find(asked, self.levels.runs()).num_rows
        return found


def milliseconds(work: Bench, count: int, runs: int, odd: int = 0) -> float:
    random = np.random.default_rng(count)
    rows = work.levels.row_count
    taken = []
    for _ in range(runs):
        keys = random.integers(0, rows, count) * 2 + odd
        start = time.perf_counter()
        found = work.look_up(keys)
        taken.append((time.perf_counter() - start) * 1e3)
        assert found == (0 if odd else count)
    return statistics.median(taken)


def row_by_row(folder: str, keys: np.ndarray, rows: int) -> float:
    """Keys a CPU second of a RocksDB with an entry a row, warm."""
    database = Rdict(folder + "/rows", Options(raw_mode=True))
    value = bytes(60)
    for first in range(0, rows, BATCH_ROWS):
        batch = WriteBatch(raw_mode=True)
        for key in range(first, min(first + BATCH_ROWS, rows)):
            batch[(2 * key).to_bytes(8, "big")] = value
        database.write(batch)
    database.flush()
    asked = [int(key).to_bytes(8, "big") for key in keys]
    database.get(asked)
    measured = measure(lambda: len(database.get(asked)))
    database.close()
    return len(asked) / measured.cpu_seconds


def main() -> None:
    options = parsed(__doc__, keys=10_000_000, runs=20)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder + "/lookups", options.keys)
        built = measure(lambda: bench.look_up(np.zeros(1, np.int64)))
        print(f"copies of {options.keys:,} rows: {built.cpu_seconds:.1f} cpu-s")
        milliseconds(bench, 10_000, options.runs)
        hits = milliseconds(bench, 10_000, options.runs)
        misses = milliseconds(bench, 10_000, options.runs, odd=1)
        one = milliseconds(bench, 1, 300)
        print(f"10,000 keys: {hits:.1f} ms (goal 50), absent ones {misses:.1f} ms")
        print(f"one key: {one:.3f} ms (goal 0.5)")
        bench.store.close()

        bench = Bench(folder + "/changelog", CHANGELOG_ROWS)
        random = np.random.default_rng(5)
        keys = np.unique(random.integers(0, CHANGELOG_ROWS, CHANGED_KEYS)) * 2
        bench.old_rows(keys)
        measured = measure(lambda: bench.old_rows(keys))
        assert measured.result == len(keys)
        rate = len(keys) / measured.cpu_seconds
        single = row_by_row(folder, keys[:: len(keys) // ROWS_ONE_BY_ONE], CHANGELOG_ROWS)
        print(
            f"old rows of {len(keys):,} of {CHANGELOG_ROWS:,} keys: {rate / 1e6:.2f}M keys/cpu-s, "
            f"{rate / single:.1f} times RocksDB with an entry a row (goal 3)"
        )
        bench.store.close()


if __name__ == "__main__":
    main()
