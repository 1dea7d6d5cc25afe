"""The audit log and the read-optimized table: system tables of a table's own rows.

Source: "Audit log Table" and "Read-optimized Table" in Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pkray.changelog.reader import ROW_KIND, ChangelogReader
from pkray.scan.plan import ScanPlanner
from pkray.system.source import Source

_KIND = pa.field("rowkind", pa.string(), nullable=False)


def audit_log(source: Source) -> pa.RecordBatchReader:
    """Every change of the snapshots that are kept, in commit order: ``rowkind``, then the row."""
    schema = pa.schema([_KIND, *source.schema.arrow_schema])
    columns = [ROW_KIND, *source.schema.names]
    last = source.moment.id if source.moment else None

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in ChangelogReader(source.store, source.schema).read(to_snapshot=last):
            yield pa.RecordBatch.from_arrays(batch.select(columns).columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def read_optimized(source: Source) -> pa.RecordBatchReader:
    """The rows of the topmost level: what each bucket's last full compaction left."""

    def batches() -> Iterator[pa.RecordBatch]:
        planner = ScanPlanner(source.location, source.store, source.schema)
        top = source.schema.core.num_levels - 1
        for split in planner.scan(source.snapshot, from_level=top):
            yield from split.read(source.store)

    return pa.RecordBatchReader.from_batches(source.schema.arrow_schema, batches())
