"""Plans over rows that tests write down."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pkray.relational.local.catalogue import run
from pkray.relational.plan.expressions import Call, ColumnRef, Expression, Literal
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.sources import Source, Watermark
from pkray.schema.types import DataType

BOOLEAN = DataType("BOOLEAN")


class Rows(Source):
    """A source of rows in memory, given in batches of a few."""

    name = "rows"
    primary_key: tuple[str, ...] = ()
    mode = "insert"
    watermark: Watermark | None = None

    def __init__(self, fields: Fields, rows: Sequence[Sequence[Any]], batch_rows: int = 3) -> None:
        self.fields = fields
        self.batch_rows = batch_rows
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
        arrays = [
            pa.array(list(column), field.type)
            for column, field in zip(columns, fields.arrow, strict=True)
        ]
        self.table = pa.Table.from_arrays(arrays, schema=fields.arrow)

    def row_count(self) -> int | None:
        return self.table.num_rows

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(list(columns)).to_batches(max_chunksize=self.batch_rows)


def rows_of(columns: str, rows: Iterable[Sequence[Any]]) -> Scan:
    """Scan rows; the columns as ``"k INT, v STRING"``."""
    parts = [part.strip().split(" ", 1) for part in re.split(r",(?![^(<]*[)>])", columns)]
    fields = Fields(tuple(Field(name, DataType.parse(kind)) for name, kind in parts))
    return Scan(Rows(fields, list(rows)))


def result(plan: Node, batch_rows: int = 4) -> list[tuple[Any, ...]]:
    """Run a plan; NaN is written as text, so that it equals itself."""
    batches = list(run(plan, batch_rows=batch_rows))
    for batch in batches:
        assert batch.schema.equals(plan.fields.arrow), (batch.schema, plan.fields.arrow)
        assert 0 < batch.num_rows <= batch_rows
        batch.validate(full=True)
    return [
        tuple(_told(row[name]) for name in plan.fields.names) if len(plan.fields) else ()
        for batch in batches
        for row in (batch.to_pylist() if len(plan.fields) else [{}] * batch.num_rows)
    ]


def bag(plan: Node) -> Counter[tuple[Any, ...]]:
    """Run a plan and count its rows."""
    return Counter(map(_hashable, result(plan)))


def counted(rows: Iterable[Sequence[Any]]) -> Counter[tuple[Any, ...]]:
    """Count rows as `bag` does."""
    return Counter(_hashable(tuple(_told(value) for value in row)) for row in rows)


def _told(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0:
        return "-0.0"
    return value


def _hashable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(repr(value) if isinstance(value, list | dict) else value for value in row)


def col(name: str, kind: str = "INT") -> ColumnRef:
    """Read a column."""
    return ColumnRef(DataType.parse(kind), name)


def lit(value: Any, kind: str = "INT NOT NULL") -> Literal:
    """Write a constant."""
    return Literal(DataType.parse(kind), value)


def call(function: str, *arguments: Expression, kind: str = "BOOLEAN") -> Call:
    """Call a function."""
    return Call(DataType.parse(kind), function, arguments)
