"""What the Spark tests share: a table's making, its rows in key order, files for streams."""

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_FIRST_WRITTEN = 1_700_000_000
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("amount", pa.float64()),
    ]
)


def create(catalog, name="db.t", schema=SCHEMA, primary_keys=("id",), buckets=2, **arguments):
    options = {"bucket": str(buckets), **arguments.pop("options", {})}
    return catalog.create_table(
        name, schema, primary_keys=list(primary_keys), options=options, **arguments
    )


def rows(*values: tuple) -> pa.Table:
    """Rows of `SCHEMA`."""
    columns = list(zip(*values, strict=True)) or [[], [], []]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def content(table, keys: Iterable[str] = ("id",)) -> pa.Table:
    """A table's committed rows, in key order."""
    return table.to_arrow().sort_by([(key, "ascending") for key in keys]).combine_chunks()


def spark_rows(df, keys: Iterable[str] = ("id",)) -> pa.Table:
    """A DataFrame's rows, in key order."""
    return df.toArrow().sort_by([(key, "ascending") for key in keys]).combine_chunks()


def dying_once(df, folder: Path):
    """The rows of ``df``; the task of its first partition dies once, after all of its rows."""
    mark = folder / "died"

    def die_once(batches):
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().partitionId() == 0 and not mark.exists():
            mark.touch()
            raise RuntimeError("dies after its rows were pushed")

    return df.mapInArrow(die_once, df.schema)


def write_files(folder: Path, *tables: pa.Table) -> str:
    """A Parquet file a table, in the order in which a file stream takes them."""
    folder.mkdir(parents=True, exist_ok=True)
    already = len(list(folder.glob("*.parquet")))
    for number, table in enumerate(tables, start=already):
        path = folder / f"{number:04}.parquet"
        pq.write_table(table, path)
        os.utime(path, (_FIRST_WRITTEN + number,) * 2)
    return str(folder)


def file_stream(spark, folder: str, schema="id BIGINT, name STRING, amount DOUBLE"):
    """A stream that takes one file a micro-batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)


def run_stream(spark, folder: str, table, checkpoint: Path, **arguments):
    """Ingest what is in the folder and not yet in the checkpoint, and wait for it."""
    import pkray.spark

    query = pkray.spark.start_ingest(
        file_stream(spark, folder, **arguments.pop("stream", {})),
        table,
        checkpoint_location=str(checkpoint),
        trigger={"availableNow": True},
        **arguments,
    )
    query.awaitTermination()
    return query


def overlapping_files(folder: Path, count: int, size: int = 500) -> tuple[str, pa.Table]:
    """Files each of which rewrites half of the keys before it, and what they come to."""
    tables, merged = [], {}
    for number in range(count):
        ids = range(number * size // 2, number * size // 2 + size)
        merged.update({key: (key, f"file-{number}", float(number)) for key in ids})
        tables.append(rows(*((key, f"file-{number}", float(number)) for key in ids)))
    return write_files(folder, *tables), rows(*(merged[key] for key in sorted(merged)))
