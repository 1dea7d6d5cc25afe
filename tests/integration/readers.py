"""Independent readers of what pkray writes."""

from __future__ import annotations

import pyarrow as pa


def read_with_rust(warehouse: str, table: str, where: str = "", columns: str = "*") -> pa.Table:
    """The rows of ``database.table`` as pypaimon-rust reads them."""
    from pypaimon_rust.datafusion import SQLContext

    context = SQLContext()
    context.register_catalog("paimon", {"warehouse": warehouse})
    sql = f"SELECT {columns} FROM paimon.{table}" + (f" WHERE {where}" if where else "")
    found = context.sql(sql)
    batches = found if isinstance(found, list) else found.collect()
    return (
        pa.Table.from_batches(
            [pa.RecordBatch.from_arrays(b.columns, b.schema.names) for b in batches]
        )
        if batches
        else pa.table({})
    )


def rows_of(table: pa.Table, order_by: list[str]) -> list[tuple]:
    """The content as tuples in key order, for comparison."""
    if table.num_rows == 0:
        return []
    ordered = table.sort_by([(name, "ascending") for name in order_by])
    return list(zip(*(column.to_pylist() for column in ordered.columns), strict=True))
