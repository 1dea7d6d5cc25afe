"""Planning and committing on tables of many data files.

The tables are made of real manifests by one commit; their data files are named only. Goals:
planning a read that names one key on 10,000 files takes under 100 ms warm, and an empty commit on
them at most 3 times as long as on 100.

python tests/benchmarks/bench_planning.py [--files 10000] [--buckets 64] [--runs 15]
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from harness import SCHEMA, parsed

import pkray
from pkray.commit.committer import Committer
from pkray.format import binary_row
from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import COMPACT_SOURCE, DataFileMeta, SimpleStats
from pkray.scan.file_set_cache import file_sets

FILE_ROWS = 1_000_000
GOAL_PLAN_MS, GOAL_COMMIT_RATIO = 100, 3


def main() -> None:
    options = parsed(__doc__, files=10_000, buckets=64, runs=15)
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        few, _ = make_table(catalog, "bench.few", 100, options.buckets)
        many, committer = make_table(catalog, "bench.many", options.files, options.buckets)

        one_key = f"k = {options.files // options.buckets * FILE_ROWS // 3}"
        file_sets.clear()
        cold = timed(lambda: many.splits(filter=one_key), 1)
        warm = timed(lambda: many.splits(filter=one_key), options.runs)
        fresh = timed(
            lambda: many.splits(filter=one_key),
            options.runs,
            before=lambda: committer.commit(next(identifiers), [one_more(many, committer)]),
        )
        values = timed(lambda: many.splits(filter="a = 5"), options.runs)
        print(many.explain(filter=one_key))
        print(
            f"planning a read of one key on {options.files:,} files: {warm:.1f} ms warm "
            f"(goal {GOAL_PLAN_MS}), {fresh:.1f} ms after each commit, {cold:.0f} ms cold; "
            f"by a value: {values:.1f} ms"
        )

        few_commit, many_commit = empty_commits([few, many], 3 * options.runs)
        print(
            f"an empty commit on {options.files:,} files: {many_commit:.2f} ms, "
            f"{many_commit / few_commit:.2f} times that on 100 (goal {GOAL_COMMIT_RATIO})"
        )


def timed(
    work: Callable[[], object], runs: int, before: Callable[[], object] = lambda: None
) -> float:
    """Median milliseconds."""
    taken = []
    for _ in range(runs):
        before()
        start = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def empty_commits(tables: Sequence[pkray.Table], runs: int) -> list[float]:
    """Median milliseconds of an empty commit to each, taken in turn."""
    taken: list[list[float]] = [[] for _ in tables]
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(table.open_writer("empty")) for table in tables]
        for run in range(-3, runs):
            for writer, of_table in zip(writers, taken, strict=True):
                spent = timed(lambda writer=writer: writer.commit(next(identifiers)), 1)
                if run >= 0:
                    of_table.append(spent)
    return [statistics.median(of_table) for of_table in taken]


def make_table(
    catalog: pkray.Catalog, name: str, files: int, buckets: int
) -> tuple[pkray.Table, Committer]:
    table = catalog.create_table(name, SCHEMA, ["k"], options={"bucket": str(buckets)})
    committer = Committer(table.location.open(), table.schema, "bench")
    made = data_files(table, np.arange(files), np.arange(files) // buckets * FILE_ROWS)
    messages = [
        CommitMessage(
            partition=binary_row.EMPTY_ROW,
            bucket=bucket,
            total_buckets=buckets,
            compact_after=tuple(made[bucket::buckets]),
        )
        for bucket in range(buckets)
    ]
    committer.commit(next(identifiers), messages)
    return table, committer


def one_more(table: pkray.Table, committer: Committer) -> CommitMessage:
    """A compaction of bucket 0 that adds a file."""
    number = 1_000_000 + next(identifiers)
    (file,) = data_files(table, np.array([number]), np.array([number * FILE_ROWS]))
    return CommitMessage(
        partition=binary_row.EMPTY_ROW,
        bucket=0,
        total_buckets=table.schema.core.bucket,
        compact_after=(file,),
    )


def data_files(table: pkray.Table, numbers: np.ndarray, low: np.ndarray) -> list[DataFileMeta]:
    """Files of the top level, of a million keys from ``low`` on and values at random."""
    random = np.random.default_rng(len(numbers))
    count = len(numbers)

    def rows(keys: np.ndarray, upper: bool) -> tuple[list[bytes], list[bytes]]:
        columns = [
            pa.array(keys),
            pa.array(random.integers(10, 1000, count) * (1 + upper)),
            pa.array(random.random(count) + upper),
            pa.array([("z" if upper else "a") * 16] * count),
            pa.array(1_700_000_000_000_000 + keys, pa.timestamp("us")),
        ]
        types = [field.type for field in table.schema.fields]
        key_rows = binary_row.encode(columns[:1], types[:1])
        return key_rows.to_pylist(), binary_row.encode(columns, types).to_pylist()

    least_key, least = rows(low, False)
    most_key, most = rows(low + FILE_ROWS - 1, True)
    return [
        DataFileMeta(
            file_name=f"data-5b1a7d1c-bench-{numbers[i]}.parquet",
            file_size=40 << 20,
            row_count=FILE_ROWS,
            min_key=least_key[i],
            max_key=most_key[i],
            key_stats=SimpleStats(least_key[i], most_key[i], (0,)),
            value_stats=SimpleStats(least[i], most[i], (0,) * 5),
            min_sequence_number=int(low[i]),
            max_sequence_number=int(low[i]) + FILE_ROWS - 1,
            schema_id=table.schema.id,
            level=5,
            creation_time=1_700_000_000_000,
            delete_row_count=0,
            file_source=COMPACT_SOURCE,
        )
        for i in range(count)
    ]


identifiers = iter(range(1, 1 << 30))

if __name__ == "__main__":
    main()
