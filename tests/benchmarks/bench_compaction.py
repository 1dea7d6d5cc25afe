"""A streamed compaction of sorted runs, against DataFusion's sort-preserving merge.

    python tests/benchmarks/bench_compaction.py [--rows 1000000] [--repeat 3] [--codec zstd]

The same Parquet files are read, and the rows written as Parquet with the same codec. Each engine
runs in a process of its own, in turn, DataFusion with one partition and the files' order declared:

* `compact`: it keeps the newest row of each key by a window function, and writes as pkray does:
  which columns have the codec, a dictionary and statistics, and how large row groups are.
* `merge`: every row is written, as its Parquet writer does by itself.
* `merge-as-pkray`: every row is written, as pkray does.

Two workloads:

* updates: every run has rows of keys at random, of as many keys as all runs have rows.
* distinct: every key is in one run.
"""

from __future__ import annotations

import pickle
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Measured, batches, in_own_process, measure, parsed, report, warm_up

from pkray.format.data_file import APPEND_SOURCE, DataFileMeta
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.levels import Levels
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.schema.table_schema import TableSchema
from pkray.storage.opening import open_store
from pkray.storage.parquet.encoding import choose_encodings
from pkray.storage.parquet.writer import ROW_GROUP_ROWS

if TYPE_CHECKING:
    from datafusion import ParquetWriterOptions

UNPARTITIONED = bytes(12)
COLUMNS = [
    ("k", "BIGINT NOT NULL"),
    ("a", "BIGINT"),
    ("b", "DOUBLE"),
    ("s", "STRING"),
    ("ts", "TIMESTAMP(6)"),
]
OPTIONS: dict[str, str] = {}
"""Table options, from the command line."""
SPEED_GOAL, MEMORY_GOAL = 2.0, 0.25
_NAMES = {"zstd": "zstd(1)", "lz4": "lz4_raw", "none": "uncompressed"}
"""What DataFusion calls the codecs."""
ENGINES = {
    "updates": ("pkray", "compact", "merge", "merge-as-pkray"),
    "distinct": ("pkray", "merge", "merge-as-pkray"),
}


def bucket(folder: str) -> DataFileStore:
    schema = TableSchema.create(COLUMNS, ["k"], (), {"bucket": "1", **OPTIONS})
    return DataFileStore(open_store(folder), schema, UNPARTITIONED, 0)


def write_runs(folder: str, workload: str, runs: int, rows: int) -> None:
    """Files of level 0, each with ``rows`` distinct keys; their metadata goes beside them."""
    random = np.random.default_rng(5)
    files = bucket(folder)
    keys = random.permutation(runs * rows)
    written: list[DataFileMeta] = []
    for number, table in enumerate(batches(runs * rows, 2, rows)):
        if workload == "updates":
            chosen = random.choice(runs * rows, rows, replace=False)
        else:
            chosen = keys[number * rows : (number + 1) * rows]
        columns = {name: table.column(name).combine_chunks() for name in table.schema.names}
        columns["k"] = pa.array(np.sort(chosen))
        columns["_SEQUENCE_NUMBER"] = pa.array(number * rows + np.arange(rows))
        columns["_VALUE_KIND"] = pa.array(np.zeros(rows, np.int8))
        names = files.schema.row_schema
        batch = pa.RecordBatch.from_arrays([columns[n] for n in names.names], schema=names)
        written += files.write_run([batch], 0, APPEND_SOURCE)
    Path(folder, "files.pickle").write_bytes(pickle.dumps(written))


def written_runs(folder: str) -> list[DataFileMeta]:
    files: list[DataFileMeta] = pickle.loads(Path(folder, "files.pickle").read_bytes())
    return files


def pkray(folder: str) -> int:
    files = bucket(folder)
    levels = Levels(written_runs(folder))
    writer = BucketWriter(files.schema, files, levels)
    writer.compact(full=True)
    return writer.levels.row_count


def datafusion(folder: str, codec: str, *, newest_only: bool, as_pkray: bool) -> int:
    from datafusion import ParquetWriterOptions, SessionConfig, SessionContext, col

    files = bucket(folder)
    config = SessionConfig().with_target_partitions(1)
    config = config.set("datafusion.execution.parquet.pushdown_filters", "false")
    context = SessionContext(config)
    runs = written_runs(folder)
    for number, run in enumerate(runs):
        path = Path(folder, files.path(run.file_name))
        order = [[col("_KEY_k").sort(ascending=True, nulls_first=False)]]
        context.register_parquet(f"run{number}", path, file_sort_order=order)
    names = ", ".join(f'"{name}"' for name in files.schema.file_schema.names)
    united = " UNION ALL ".join(f"SELECT {names} FROM run{i}" for i in range(len(runs)))
    if newest_only:
        united = (
            f'SELECT *, row_number() OVER (PARTITION BY "_KEY_k" '
            f'ORDER BY "_SEQUENCE_NUMBER" DESC) AS place FROM ({united})'
        )
        query = f'SELECT {names} FROM ({united}) WHERE place = 1 ORDER BY "_KEY_k"'
    else:
        query = f'SELECT {names} FROM ({united}) ORDER BY "_KEY_k"'
    plan = context.sql(query).execution_plan().display_indent()
    assert "SortPreservingMergeExec" in plan, plan
    options = (
        as_pkray_writes(folder) if as_pkray else ParquetWriterOptions(compression=_NAMES[codec])
    )
    context.sql(query).write_parquet_with_options(f"{folder}/out.parquet", options)
    return pq.read_metadata(f"{folder}/out.parquet").num_rows


def as_pkray_writes(folder: str) -> ParquetWriterOptions:
    """Codecs, dictionaries, statistics and row groups of a compacted file."""
    from datafusion import ParquetColumnOptions, ParquetWriterOptions

    files = bucket(folder)
    options = files.options_for(5, "data")
    path = Path(folder, files.path(written_runs(folder)[0].file_name))
    sample = next(pq.ParquetFile(path).iter_batches(ROW_GROUP_ROWS))
    encodings = choose_encodings(pa.Table.from_batches([sample]), options)
    codecs = {name: _NAMES[codec.lower()] for name, codec in encodings.codecs.items()}
    return ParquetWriterOptions(
        compression="uncompressed",
        max_row_group_size=ROW_GROUP_ROWS,
        skip_arrow_metadata=True,
        allow_single_file_parallelism=False,
        column_specific_options={
            name: ParquetColumnOptions(
                compression=codec,
                dictionary_enabled=name in encodings.dictionaries,
                statistics_enabled="chunk" if name in encodings.statistics else "none",
            )
            for name, codec in codecs.items()
        },
    )


def run_one(engine: str, folder: str, codec: str) -> None:
    warm_up("datafusion", "pkray.lsm.compaction.compactor")
    pa.set_cpu_count(1)
    work = {
        "pkray": lambda: pkray(folder),
        "compact": lambda: datafusion(folder, codec, newest_only=True, as_pkray=True),
        "merge": lambda: datafusion(folder, codec, newest_only=False, as_pkray=False),
        "merge-as-pkray": lambda: datafusion(folder, codec, newest_only=False, as_pkray=True),
    }
    report(measure(work[engine]))


def compare(workload: str, runs: int, rows: int, repeat: int, codec: str) -> None:
    found: dict[str, list[Measured]] = {engine: [] for engine in ENGINES[workload]}
    with tempfile.TemporaryDirectory() as folder:
        write_runs(folder, workload, runs, rows)
        settings = ["--folder", folder, "--codec", codec]
        for _ in range(repeat):
            for engine in found:
                found[engine].append(in_own_process(__file__, "--one", engine, *settings))
    print(f"{workload}: {runs} runs of {rows:,} rows, {codec}")
    for engine, measured in found.items():
        cpu = statistics.median(one.cpu_seconds for one in measured)
        peak = statistics.median(one.peak_bytes for one in measured) / 1e6
        line = f"  {engine:14} {runs * rows / cpu / 1e6:5.2f}M rows/cpu-s  +{peak:5.0f} MB"
        line += f"  {measured[0].result:,} rows written"
        if engine != "pkray":
            pairs = list(zip(found["pkray"], measured, strict=True))
            speed = statistics.median(its.cpu_seconds / own.cpu_seconds for own, its in pairs)
            memory = statistics.median(own.peak_bytes / its.peak_bytes for own, its in pairs)
            line += (
                f"  pkray: {speed:.2f} times as fast (goal {SPEED_GOAL}), "
                f"{memory:.2f} of the memory (goal {MEMORY_GOAL})"
            )
        print(line)


def main() -> None:
    counts = {"rows": 1_000_000, "runs": 5, "repeat": 3}
    options = parsed(__doc__, **counts, codec="zstd", workloads=",".join(ENGINES), folder="")
    # The runs of level 0 have no codec, as if the table set none.
    OPTIONS["file.compression.per.level"] = f"0:none,5:{options.codec}"
    if options.one:
        run_one(options.one, options.folder, options.codec)
        return
    for workload in options.workloads.split(","):
        compare(workload, options.runs, options.rows, options.repeat, options.codec)


if __name__ == "__main__":
    main()
