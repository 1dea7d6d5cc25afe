"""Independent readers of what pkray writes."""

import pyarrow as pa


class RustCatalog:
    """A warehouse as pypaimon-rust sees it.

    Args:
        storage_options: what its file access needs, such as ``s3.endpoint``.
    """

    def __init__(self, warehouse: str, storage_options: dict[str, str] | None = None) -> None:
        from pypaimon_rust.datafusion import SQLContext

        self._context = SQLContext()
        options = {"warehouse": warehouse, **(storage_options or {})}
        self._context.register_catalog("paimon", options)
        self._inserted = 0

    def sql(self, statement: str) -> pa.Table:
        """The statement's result; ``paimon`` is the catalog."""
        found = self._context.sql(statement)
        batches = found if isinstance(found, list) else found.collect()
        if not batches:
            return pa.table({})
        return pa.Table.from_batches(
            [
                pa.RecordBatch.from_arrays(b.columns, schema=pa.schema(list(b.schema)))
                for b in batches
            ]
        )

    def read(self, table: str, where: str = "", columns: str = "*") -> pa.Table:
        """The rows of ``database.table``."""
        condition = f" WHERE {where}" if where else ""
        return self.sql(f"SELECT {columns} FROM paimon.{table}{condition}")

    def insert(self, table: str, rows: pa.Table) -> None:
        """Append the rows under the writer that pypaimon-rust has."""
        (batch,) = rows.combine_chunks().to_batches()
        self._inserted += 1
        name = f"incoming{self._inserted}"
        self._context.register_batch(name, batch)
        self.sql(f"INSERT INTO paimon.{table} SELECT * FROM {name}")


def read_with_rust(warehouse: str, table: str, where: str = "", columns: str = "*") -> pa.Table:
    """The rows of ``database.table`` as pypaimon-rust reads them."""
    return RustCatalog(warehouse).read(table, where, columns)


def rows_of(table: pa.Table, order_by: list[str]) -> list[tuple]:
    """The content as tuples in key order, for comparison."""
    if table.num_rows == 0:
        return []
    ordered = table.sort_by([(name, "ascending") for name in order_by])
    return list(zip(*(column.to_pylist() for column in ordered.columns), strict=True))
