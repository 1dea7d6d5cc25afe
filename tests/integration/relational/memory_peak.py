"""Runs one query over rows that are made as they are read, and prints its peak memory.

    python tests/integration/relational/memory_peak.py MEMORY ROWS QUERY THREADS

The peak is of resident memory beyond what was there before, in bytes; with it come the number of
rows and their sum of ``k``, as JSON.
"""

import gc
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.dialect import Dialect
from pkray.relational.local import threads
from pkray.relational.local.catalogue import run
from pkray.relational.optimizer import optimize
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.sources import ColumnStatistics, Source, Watermark
from pkray.relational.sql.binder.binder import Binder
from pkray.relational.sql.parser import parse_query
from pkray.schema.types import DataType

STEP = 7919
"""A prime: the keys come in no order, each once."""


class Made(Source):
    """Rows of keys 0 … rows - 1, a group of ten of them each, and text."""

    primary_key: tuple[str, ...] = ()
    mode = "insert"
    watermark: Watermark | None = None
    kinds = (("k", "BIGINT"), ("g", "BIGINT"), ("s", "STRING"))

    def __init__(self, name: str, rows: int) -> None:
        self.name = name
        self.rows = rows

    @property
    def fields(self) -> Fields:
        return Fields(tuple(Field(name, DataType.parse(kind)) for name, kind in self.kinds))

    def row_count(self) -> int:
        return self.rows

    def statistics(self, column: str) -> ColumnStatistics:
        return ColumnStatistics()

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        for start in range(0, self.rows, 1 << 15):
            k = np.arange(start, min(start + (1 << 15), self.rows)) * STEP % self.rows
            text = pc.binary_join_element_wise("a text of key", pa.array(k).cast(pa.string()), " ")
            made = {"k": pa.array(k), "g": pa.array(k // 10), "s": text}
            yield pa.RecordBatch.from_arrays([made[name] for name in columns], list(columns))


class Tables:
    dialect = Dialect.SPARK

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def relation(self, parts: tuple[str, ...], options: object, at: object) -> Node:
        return Scan(Made(parts[-1], self.rows))

    def udf(self, name: str) -> None:
        return None


def computed(query: str, rows: int, memory: int | None) -> tuple[int, int]:
    """Run a query; give the number of its rows and the sum of ``k``."""
    plan = optimize(Binder(Tables(rows)).query(parse_query(query, Dialect.SPARK)), bounded=True)
    count = total = 0
    for batch in run(plan, memory=memory):
        count += batch.num_rows
        total += pc.sum(batch["k"]).as_py()
    return count, total


def main() -> None:
    memory, rows, query = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    threads.THREADS = int(sys.argv[4])
    pa.set_cpu_count(threads.THREADS)
    computed(query, 1000, memory)
    gc.collect()
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    count, total = computed(query, rows, memory)
    print(json.dumps({"peak": resident("VmHWM") - before, "rows": count, "sum": total}))


def resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
