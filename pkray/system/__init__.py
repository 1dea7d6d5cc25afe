"""System tables: what a table holds of itself, as Arrow.

`SystemTables` has them by the names that Paimon gives them: of its history (``history``: snapshots,
schemas, tags …), of one snapshot (``contents``: manifests, files, partitions, buckets …) and of its
rows (``rows``: audit log, binlog, read-optimized). A `Source` is the table that they are of. All
but those of rows are small and come whole.
"""

from pkray.system.tables import TABLES as SYSTEM_TABLES
from pkray.system.tables import SystemTables, check_system_name

__all__ = ["SYSTEM_TABLES", "SystemTables", "check_system_name"]
