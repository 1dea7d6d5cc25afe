"""The audit log, the binlog and the read-optimized table: system tables of a table's own rows.

Source: "Audit log Table", "Binlog Table" and "Read-optimized Table" in Apache Paimon.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.changelog.reader import ROW_KIND, ChangelogReader
from pkray.lsm.compaction.pick import skips_level_0
from pkray.scan.plan import ScanPlanner
from pkray.system.source import Source

UPDATE_BEFORE, UPDATE_AFTER = "-U", "+U"
_KIND = pa.field("rowkind", pa.string(), nullable=False)


def audit_log(source: Source) -> pa.RecordBatchReader:
    """Show every change of the snapshots that are kept, in commit order: ``rowkind``, then the
    row."""
    schema = pa.schema([_KIND, *source.schema.arrow_schema])
    columns = [ROW_KIND, *source.schema.names]
    last = source.selected.id if source.selected else None

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in ChangelogReader(source.store, source.schema).read(to_snapshot=last):
            yield pa.RecordBatch.from_arrays(batch.select(columns).columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def binlog(source: Source) -> pa.RecordBatchReader:
    """Show changes as `audit_log` does, with every column as an array: of an update the row before
    and the row after it in one row, and of every other change its row."""
    columns = [
        pa.field(field.name, pa.list_(field.with_name("element").with_nullable(True)))
        for field in source.schema.arrow_schema
    ]
    schema = pa.schema([_KIND, *columns])

    def batches() -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        for batch in audit_log(source):
            rows = pa.concat_batches([*held, batch])
            complete = rows.num_rows - rows.column(0)[-1:].to_pylist().count(UPDATE_BEFORE)
            held = [rows.slice(complete)]
            yield _packed(rows.slice(0, complete), schema)
        yield from (_packed(rows, schema) for rows in held)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _packed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    kinds, *columns = rows.columns
    before = np.asarray(pc.equal(kinds, UPDATE_BEFORE))
    ends = np.flatnonzero(~(before & _followed_by(pc.equal(kinds, UPDATE_AFTER)))) + 1
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    arrays = [
        pa.ListArray.from_arrays(offsets, column, type=field.type)
        for column, field in zip(columns, list(schema)[1:], strict=True)
    ]
    return pa.RecordBatch.from_arrays([kinds.take(pa.array(ends - 1)), *arrays], schema=schema)


def _followed_by(is_so: pa.Array) -> np.ndarray:
    return np.append(np.asarray(is_so)[1:], False)


def read_optimized(source: Source) -> pa.RecordBatchReader:
    """Show rows that are read without merging any: what each bucket's last full compaction left.

    With deletion vectors, and of first-row, that is all that compactions left.
    """

    def batches() -> Iterator[pa.RecordBatch]:
        planner = ScanPlanner(source.location, source.store, source.schema)
        is_compacted = skips_level_0(source.schema)
        min_level = 1 if is_compacted else source.schema.core.num_levels - 1
        for split in planner.scan(source.snapshot, from_level=min_level):
            yield from split.read(source.store)

    return pa.RecordBatchReader.from_batches(source.schema.arrow_schema, batches())
