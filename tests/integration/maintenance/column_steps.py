"""Columns and numbers of buckets that change."""

from collections.abc import Callable

from line_model import KEY, SUMMED, Column, Columns, under
from table_checks import CheckedTable

from pkray.table.maintenance.alter import Alter

WIDER = {"INT": "BIGINT", "BIGINT": "DECIMAL(25, 2)"}


class ColumnSteps(CheckedTable):
    """Columns and buckets change."""

    def add_column(self) -> None:
        kind = self.rng.choice(("INT", "BIGINT", "STRING"))
        number = self.next_column[self.line.name]
        self.next_column[self.line.name] += 1
        first = self.rng.random() < 0.5
        column = Column(number, next(self.names), kind)
        columns = (column, *self.line.columns) if first else (*self.line.columns, column)
        self._alter(columns, lambda alter: alter.add_column(column.name, kind, first=first))

    def drop_column(self) -> None:
        places = [c for c in self.line.columns if c.id not in (*KEY, SUMMED)]
        if places:
            column = self.rng.choice(places)
            columns = tuple(c for c in self.line.columns if c != column)
            self._alter(columns, lambda alter: alter.drop_column(column.name))
            self.line.rows = under(self.line.rows, columns)

    def rename_column(self) -> None:
        column = self.rng.choice([c for c in self.line.columns if c.id])
        name = next(self.names)
        columns = tuple(c._replace(name=name) if c == column else c for c in self.line.columns)
        self._alter(columns, lambda alter: alter.rename_column(column.name, name))

    def widen_column(self) -> None:
        found = [c for c in self.line.columns if c.id not in KEY and c.type in WIDER]
        if found:
            column = self.rng.choice(found)
            kind = WIDER[column.type]
            columns = tuple(c._replace(type=kind) if c == column else c for c in self.line.columns)
            self._alter(columns, lambda alter: alter.change_type(column.name, kind))

    def move_column(self) -> None:
        column = self.rng.choice(self.line.columns[1:])
        columns = (column, *(c for c in self.line.columns if c != column))
        self._alter(columns, lambda alter: alter.move_column(column.name, first=True))

    def rescale(self) -> None:
        buckets = self.rng.randrange(1, 4)
        table = self._table_of()
        if self.rng.random() < 0.3:
            table.rescale(buckets, [{"p": "x"}])
        else:
            table.rescale(buckets)
        if table.schema.id > self.line.schema_id:
            self.line.schemas[table.schema.id] = self.line.columns
            self.line.buckets[table.schema.id] = buckets
        assert self.line.bucket_count == buckets
        self._sync()

    def _alter(self, columns: Columns, change: Callable[[Alter], object]) -> None:
        table = self._table_of()
        change(table.alter)
        self.line.buckets[table.schema.id] = self.line.bucket_count
        self.line.schemas[table.schema.id] = columns
        self.log.append(f"    {columns}")
