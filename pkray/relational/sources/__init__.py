"""Read the rows of a plan from where they are.

- **source** (`source`): what every one of them offers: columns, rows in batches, counts.
- **table** (`table`): a keyed table, at one snapshot once a run has pinned it; `system` its system
  tables.
- **Arrow** (`arrow`): rows in memory.
- **changelog** (`changelog`): changes in memory, pushed epoch by epoch.
- **streamed** (`streamed`): a stream from outside, whose changes a feeder writes to a spool.
- **computed column** (`computed`): what a table's queries compute of the stored columns, a
  projection over its scan, which `scans` finds again below it; `watermarks` may follow one.
- **pushdown** (`pushdown`): what of a condition a table's files can be pruned by.
"""

from pkray.relational.plan.source import ColumnStatistics, Source, Watermark

__all__ = ["ColumnStatistics", "Source", "Watermark"]
