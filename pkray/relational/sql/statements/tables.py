"""Reading of CREATE TABLE and ALTER TABLE."""

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from pkray.errors import PkrayError, QueryError, SchemaError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.sql.expressions.types import type_of
from pkray.relational.sql.parser import parse_expression
from pkray.relational.sql.statements.cursor import Cursor
from pkray.relational.sql.statements.kinds import AlterTable, ColumnDefinition, CreateTable
from pkray.relational.sql.statements.rows import read_partition
from pkray.schema.types import MAX_LEVELS, DataType

_SPARK_TYPE = re.compile(r"\b(TIMESTAMP|BINARY)\b(?!\s*\()|\bTIMESTAMP\s*\(|\bSTRUCT\b", re.I)
"""Types whose names mean something else, or nothing, in table schemas."""
_QUOTED = re.compile(r"`[^`]*`|'[^']*'")
_SHOWN = 200
"""Characters of a type that an error repeats."""


def create_table(cursor: Cursor) -> CreateTable:
    """Read what comes after CREATE TABLE."""
    missing = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("a table")
    columns: list[ColumnDefinition] = []
    keys: list[str] = []
    watermark: list[tuple[str, str]] = []
    if cursor.word() == "(":
        cursor.listed("a column", lambda: _table_part(cursor, columns, keys, watermark))
    like = cursor.name("a table") if cursor.take("LIKE") else ()
    said = _clauses(cursor, CreateTable(name, tuple(columns), tuple(keys), if_not_exists=missing))
    if not like and cursor.take("LIKE"):
        like = cursor.name("a table")
    if like and (columns or cursor.word() in ("(", "AS")):
        raise UnsupportedError(
            f"CREATE TABLE … LIKE {'.'.join(like)} takes all of its columns, keys and options: "
            "change the new table by ALTER TABLE",
            **cursor.place(),
        )
    tree = cursor.tree() if cursor.take("AS") else None
    mark = watermark[0] if watermark else None
    return replace(said, watermark=mark, tree=tree, like=like)


def _clauses(cursor: Cursor, said: CreateTable) -> CreateTable:
    """Add what stands after the columns of a table, in any order."""
    while not cursor.is_done() and cursor.word() not in ("AS", "LIKE", ";"):
        if cursor.take("USING"):
            said = replace(said, using=cursor.identifier("a format").lower())
        elif cursor.take("COMMENT"):
            said = replace(said, comment=cursor.string("a comment"))
        elif cursor.take("PARTITIONED", "BY"):
            said = replace(said, partition_by=cursor.names("a partition column"))
        elif cursor.take("TBLPROPERTIES") or cursor.take("WITH") or cursor.take("OPTIONS"):
            said = replace(said, options=(*said.options, *_options(cursor)))
        else:
            raise cursor.unexpected(
                "USING, COMMENT, PARTITIONED BY, TBLPROPERTIES (…) or WITH (…) is expected"
            )
    return said


def _table_part(
    cursor: Cursor,
    columns: list[ColumnDefinition],
    keys: list[str],
    watermark: list[tuple[str, str]],
) -> None:
    if cursor.take("CONSTRAINT"):
        cursor.identifier("a constraint")
    if cursor.take("PRIMARY", "KEY"):
        keys += cursor.names("a key column")
        cursor.take("NOT", "ENFORCED")
    elif cursor.take("WATERMARK", "FOR"):
        watermark.append(_watermark(cursor))
    else:
        column, is_key = _column(cursor)
        columns.append(column)
        keys += [column.name] * is_key


def _watermark(cursor: Cursor) -> tuple[str, str]:
    column = cursor.identifier("a time column")
    cursor.expect("AS")
    return column, cursor.until(",", ")", ";").strip()


def _column(cursor: Cursor) -> tuple[ColumnDefinition, bool]:
    name = cursor.identifier("a column")
    if cursor.word() == "AS":
        return _computed(cursor, name), False
    kind = _type(cursor)
    found = ColumnDefinition(name, kind)
    is_key = False
    while cursor.word() not in (",", ")", ";", ""):
        if cursor.take("NOT", "NULL"):
            found = replace(found, type=kind.with_nullable(False))
        elif cursor.take("NULL"):
            found = replace(found, type=kind.with_nullable(True))
        elif cursor.take("COMMENT"):
            found = replace(found, comment=cursor.string("a comment"))
        elif cursor.take("PRIMARY", "KEY"):
            is_key = True
            cursor.take("NOT", "ENFORCED")
        elif cursor.take("GENERATED"):
            text, tree = _generated(cursor)
            found = replace(found, expression=text, tree=tree)
        elif cursor.take("FIRST"):
            found = replace(found, place="FIRST")
        elif cursor.take("AFTER"):
            return replace(found, place=(cursor.identifier("a column"),)), is_key
        else:
            raise cursor.unexpected(f"NOT NULL, COMMENT, ',' or ')' is expected after {name}")
    return found, is_key


def _computed(cursor: Cursor, name: str) -> ColumnDefinition:
    """Read ``AS expression [COMMENT 'text'] [FIRST | AFTER column]``."""
    cursor.expect("AS")
    written = cursor.until(",", ")", ";", "COMMENT", "FIRST", "AFTER")
    tree = parse_expression(written, cursor.dialect)
    found = ColumnDefinition(name, None, expression=written.strip(), tree=tree)
    if cursor.take("COMMENT"):
        found = replace(found, comment=cursor.string("a comment"))
    if cursor.take("FIRST"):
        return replace(found, place="FIRST")
    if cursor.take("AFTER"):
        return replace(found, place=(cursor.identifier("a column"),))
    return found


def _generated(cursor: Cursor) -> tuple[str, exp.Expr]:
    """Read what comes after GENERATED: ``ALWAYS AS (expression)``."""
    cursor.expect("ALWAYS", "AS")
    cursor.expect("(")
    written = cursor.until(";")
    cursor.expect(")")
    return written.strip(), parse_expression(written, cursor.dialect)


def _type(cursor: Cursor) -> DataType:
    where = cursor.place()
    stops = ("NOT", "NULL", "COMMENT", "PRIMARY", "FIRST", "AFTER", "DEFAULT", "METADATA")
    text = cursor.until(",", ")", ";", "GENERATED", *stops, is_type=True).strip()
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    if _levels(text) > MAX_LEVELS:
        raise QueryError(
            f"the type {shown} has types in types over more than {MAX_LEVELS} levels: nest less",
            **where,
        )
    try:
        return _parsed_type(text, cursor.dialect)
    except PkrayError as error:
        raise QueryError(f"{shown!r} is no type: {error.message}", **where) from None


def _levels(text: str) -> int:
    """Count how deep types stand in each other, before any of them is read."""
    marks = re.findall(r"[<>]", _QUOTED.sub("", text))
    depths = itertools.accumulate(1 if mark == "<" else -1 for mark in marks)
    return max(depths, default=0)


def _options(cursor: Cursor) -> list[tuple[str, str]]:
    def pair() -> tuple[str, str]:
        key = cursor.option_key()
        if not cursor.take("=") and not cursor.is_string():
            raise cursor.unexpected(f"'=' is expected after the option {key}")
        return key, cursor.option_value(",", ")")

    return [each for each in cursor.listed("an option", pair) if isinstance(each, tuple)]


def alter(cursor: Cursor) -> AlterTable:
    """Read what comes after ALTER."""
    cursor.expect("TABLE")
    name = cursor.name("a table")
    for words, read in _CHANGES:
        if cursor.take(*words):
            return AlterTable(name, *read(cursor))
    raise cursor.unexpected("ADD, DROP, RENAME, ALTER, MODIFY, SET, UNSET or RESET is expected")


def _added(cursor: Cursor) -> tuple[str, tuple[object, ...]]:
    if cursor.take("WATERMARK", "FOR"):
        return "watermark", _watermark(cursor)
    if cursor.word() in ("PARTITION", "CONSTRAINT", "PRIMARY"):
        raise cursor.unexpected("a column is expected: partitions and keys are not added")
    if not cursor.take("COLUMNS"):
        cursor.take("COLUMN")
    if cursor.word() == "(":
        return "add", tuple(cursor.listed("a column", lambda: _column(cursor)[0]))
    return "add", (_column(cursor)[0],)


def _dropped(cursor: Cursor) -> tuple[str, tuple[object, ...]]:
    if cursor.take("WATERMARK"):
        return "watermark", ()
    if cursor.take("PARTITION"):
        return "drop_partition", tuple(read_partition(cursor))
    if not cursor.take("COLUMNS"):
        cursor.take("COLUMN")
    if cursor.word() == "(":
        return "drop", cursor.names("a column")
    return "drop", (cursor.field(),)


def _renamed(cursor: Cursor) -> tuple[str, tuple[object, ...]]:
    if cursor.take("TO"):
        return "rename_table", cursor.name("a table")
    cursor.take("COLUMN")
    old = cursor.field()
    cursor.expect("TO")
    return "rename", (old, cursor.identifier("a column"))


def _altered(cursor: Cursor) -> tuple[str, tuple[object, ...]]:
    cursor.take("COLUMN")
    name = cursor.field()
    if cursor.take("COMMENT"):
        return "comment", (name, cursor.string("a comment"))
    if cursor.take("FIRST"):
        return "move", (name, None)
    if cursor.take("AFTER"):
        return "move", (name, cursor.identifier("a column"))
    if cursor.take("DROP", "NOT", "NULL"):
        return "nullable", (name,)
    if cursor.word() == "SET" or cursor.word() == "DROP":
        raise cursor.unexpected("TYPE, COMMENT, FIRST, AFTER or DROP NOT NULL is expected")
    cursor.take("TYPE")
    return "type", (name, _type(cursor))


def _modified(cursor: Cursor) -> tuple[str, tuple[object, ...]]:
    if cursor.take("WATERMARK", "FOR"):
        return "watermark", _watermark(cursor)
    return _altered(cursor)


_Change: TypeAlias = Callable[[Cursor], tuple[str, tuple[object, ...]]]
_CHANGES: tuple[tuple[tuple[str, ...], _Change], ...] = (
    (("ADD",), _added),
    (("DROP",), _dropped),
    (("RENAME",), _renamed),
    (("ALTER",), _altered),
    (("CHANGE",), _altered),
    (("MODIFY",), _modified),
    (("SET", "TBLPROPERTIES"), lambda cursor: ("set", tuple(_options(cursor)))),
    (("SET",), lambda cursor: ("set", tuple(_options(cursor)))),
    (("UNSET", "TBLPROPERTIES"), lambda cursor: ("unset", _unset(cursor))),
    (("RESET",), lambda cursor: ("unset", _unset(cursor))),
)


def _unset(cursor: Cursor) -> tuple[object, ...]:
    cursor.take("IF", "EXISTS")
    return tuple(cursor.listed("an option", cursor.option_key))


def _parsed_type(text: str, dialect: Dialect) -> DataType:
    """Read a column's type: as casts have it, and in the words of table schemas."""

    def of_casts() -> DataType:
        cast = parse_expression(f"CAST(NULL AS {text})", dialect)
        kind = cast.args.get("to")
        if not isinstance(kind, exp.DataType):
            raise QueryError("it is not understood")
        return type_of(kind, dialect)

    def of_schemas() -> DataType:
        return DataType.parse(text)

    first, second = of_schemas, of_casts
    if dialect is Dialect.SPARK and _SPARK_TYPE.search(text):
        first, second = second, first
    try:
        return first()
    except (QueryError, SchemaError, UnsupportedError):
        return second()
