"""The audit log and the read-optimized table: system tables of a table's own rows.

Source: "Audit log Table" and "Read-optimized Table" in Apache Paimon.
"""

from __future__ import annotations

import pyarrow as pa

from pkray.changelog.reader import ROW_KIND, ChangelogReader
from pkray.scan.plan import ScanPlanner
from pkray.system.source import Source

_KIND = pa.field("rowkind", pa.string(), nullable=False)


def audit_log(source: Source) -> pa.Table:
    """Every change of the snapshots that are kept, in commit order: ``rowkind``, then the row."""
    reader = ChangelogReader(source.store, source.schema)
    changes = pa.Table.from_batches(
        reader.read(to_snapshot=source.moment.id if source.moment else None), reader.schema
    )
    schema = pa.schema([_KIND, *source.schema.arrow_schema])
    return changes.select([ROW_KIND, *source.schema.names]).rename_columns(schema.names)


def read_optimized(source: Source) -> pa.Table:
    """The rows of the topmost level: what each bucket's last full compaction left."""
    planner = ScanPlanner(source.location, source.store, source.schema)
    splits = planner.scan(source.snapshot, from_level=source.schema.core.num_levels - 1)
    batches = [batch for split in splits for batch in split.read(source.store)]
    return pa.Table.from_batches(batches, source.schema.arrow_schema)
