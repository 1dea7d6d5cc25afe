"""Relations of what is no table: rows and changes in memory, SQL over other relations."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pkray.api.relation import Relation, of_query, of_source
from pkray.arguments.facade import ColumnNames, checked
from pkray.errors import SchemaError
from pkray.relational.api.composing import in_dialect
from pkray.relational.dialect import Dialect
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import Scan
from pkray.relational.session import Environment, fresh_name
from pkray.relational.sources.arrow import ArrowSource
from pkray.relational.sources.changelog import ChangelogSource, Mode
from pkray.relational.sources.rows import fields_of
from pkray.relational.sources.watermarks import Declared, marked
from pkray.relational.sql.parser import parse_query
from pkray.relational.sql.syntax import identifier, star
from pkray.schema.column_checks import check_names
from pkray.schema.types import DataType

__all__ = ["Changelog", "changelog", "from_arrow", "query"]


class Changelog(Relation):
    """A relation of changes in memory; made by `changelog`."""

    def __init__(self, source: ChangelogSource, dialect: Dialect = Dialect.SPARK) -> None:
        names = Environment(dialect).with_bound((source.name,), Scan(source))
        super().__init__(star(exp.Table(this=identifier(source.name))), names)
        self.source = source

    def push(self, batch: object) -> None:
        """Add the changes of one epoch.

        Args:
            batch: rows, with their kinds ('+I', '-U', '+U', '-D') in ``_row_kind``; without it all
                are +I.

        Raises:
            InputError: rows that do not fit the columns, or a kind that the mode has not; nothing
                of them was taken.
        """
        self.source.push(batch)

    def finish(self) -> None:
        """End it: no more changes come."""
        self.source.finish()

    def relation(self) -> Relation:
        """Give itself, as a table gives its relation."""
        return self


@checked
def from_arrow(data: object, name: str | None = None, dialect: str = "spark") -> Relation:
    """Make a relation of rows in memory.

    Args:
        data: a pyarrow Table, RecordBatch or reader, a pandas or polars DataFrame, a list of dicts,
            or a mapping of columns.
        name: as SQL and explanations call it.
        dialect: by whose rules queries of it are typed.

    Raises:
        InputError: it is no rows.
        UnsupportedError: a column's type is none that columns have.
    """
    source = ArrowSource(name or fresh_name("arrow"), data)
    return of_source(source, in_dialect(dialect))


@checked
def changelog(
    schema: Any,
    primary_key: ColumnNames | None = None,
    mode: Mode = "insert",
    watermark: Declared | None = None,
    *,
    name: str | None = None,
    dialect: str = "spark",
) -> Changelog:
    """Make a relation of changes that are pushed: ``push`` is one epoch, ``finish`` ends it.

    Its content, which bounded queries read, is what the changes so far leave: in mode ``upsert``
    the newest row of each key; else all rows, of which a retraction takes one equal row away.

    Args:
        schema: a pyarrow schema, or names and types, as pairs or a mapping.
        primary_key: the columns that tell rows apart; mode ``upsert`` needs it.
        mode: ``insert``, +I alone; ``upsert``, +I, +U and -D by key, without -U; ``all``.
        watermark: a time column, or a pair of it and an expression: ``("ts", "ts - INTERVAL '5'
            SECOND")``.
        name: as SQL and explanations call it.
        dialect: by whose rules queries of it are typed.

    Raises:
        SchemaError: columns that cannot be.
        OptionError: mode ``upsert`` without a key.
        QueryError: the watermark names no time column, or is none.
    """
    keys = tuple(primary_key or ())
    fields = Fields(tuple(Field(each, kind) for each, kind in _columns(schema, keys)))
    fields, mark = marked(fields, watermark)
    source = ChangelogSource(name or fresh_name("changelog"), fields, keys, mode, mark)
    return Changelog(source, in_dialect(dialect))


@checked
def query(text: str, dialect: str = "spark", **relations: Relation) -> Relation:
    """Read a query of relations: ``query("SELECT a FROM t", t=rel)``.

    Raises:
        QueryError: it is not understood; line and column say where.
    """
    kind = in_dialect(dialect)
    names = Environment(kind)
    for name, relation in relations.items():
        names = names.with_bound((name,), relation.plan)
    return of_query(parse_query(text, kind), names)


def _columns(schema: Any, keys: tuple[str, ...]) -> Iterator[tuple[str, DataType]]:
    """List columns with their types; those of the key are NOT NULL."""
    if isinstance(schema, pa.Schema):
        given = {field.name: field.type for field in fields_of(schema)}
    else:
        pairs = [
            tuple(each) for each in (schema.items() if isinstance(schema, Mapping) else schema)
        ]
        check_names([name for name, _ in pairs])
        given = {name: DataType.given(kind) for name, kind in pairs}
    for key in keys:
        if key not in given:
            raise SchemaError(
                f"primary key column {key!r} is not in the schema, which has {', '.join(given)}",
                column=key,
            )
    for name, kind in given.items():
        yield name, kind.with_nullable(kind.nullable and name not in keys)
