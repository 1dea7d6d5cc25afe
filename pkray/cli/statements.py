"""Runs SQL statements and prints what they give."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv

from pkray.api.catalog import Catalog
from pkray.api.statement import Statement
from pkray.cli import output
from pkray.cli.commands.query import watch
from pkray.errors import OptionError
from pkray.rows.python_values import to_python_list


def run(
    catalog: Catalog, statement: str, dialect: str, printer: Printer, *, continuous: bool
) -> None:
    """Run one statement and print what it gives."""
    made = catalog.sql(statement, dialect)
    if isinstance(made, Statement):
        if continuous:
            watch(made.start())
            return
        with output.waiting("running"):
            done = made.run()
        printer.committed(done)
    else:
        printer.show(made)


class Printer:
    """Prints what statements give: tables for people, JSON lines or CSV for programs."""

    def __init__(self, *, as_json: bool = False, as_csv: bool = False) -> None:
        if as_json and as_csv:
            raise OptionError("--json and --csv are two ways to print: give one")
        self._as_json = as_json
        self._as_csv = as_csv

    def show(self, made: Any) -> None:
        """Print a relation's rows as they come, or a table."""
        is_plan = isinstance(made, pa.Table) and made.column_names == ["plan"]
        if is_plan and not (self._as_json or self._as_csv):
            print(made["plan"][0].as_py())  # a drawing, which a table would break
        else:
            self._rows(made.to_batches(), made.schema)

    def committed(self, snapshots: dict[str, Any]) -> None:
        """Print which snapshots an INSERT has made."""
        rows = [
            {"table": name, "snapshot_id": snapshot and snapshot.id}
            for name, snapshot in snapshots.items()
        ]
        schema = pa.schema([("table", pa.string()), ("snapshot_id", pa.int64())])
        self.show(pa.Table.from_pylist(rows, schema))

    def _rows(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        if not self._as_csv:
            output.rows(batches, schema, self._as_json)
            return
        sys.stdout.flush()
        with pyarrow.csv.CSVWriter(sys.stdout.buffer, _flat(schema)) as writer:
            for batch in _flattened(batches, _flat(schema)):
                writer.write_batch(batch)


def _flat(schema: pa.Schema) -> pa.Schema:
    """Give nested columns as text, which CSV has not."""
    return pa.schema(
        [
            (each.name, pa.string() if pa.types.is_nested(each.type) else each.type)
            for each in schema
        ]
    )


def _flattened(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [
            pa.array([None if v is None else str(v) for v in to_python_list(column)], pa.string())
            if pa.types.is_nested(column.type)
            else column
            for column in batch.columns
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
