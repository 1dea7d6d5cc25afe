"""The kinds of statements: what each says, as data; queries in them stay syntax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from pkray.schema.types import DataType

Name: TypeAlias = tuple[str, ...]
"""``("t",)`` or ``("db", "t")``."""


@dataclass(frozen=True)
class Query:
    """SELECT, VALUES, WITH or a set operation."""

    tree: exp.Query


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of CREATE TABLE or ALTER TABLE.

    Attributes:
        type: None: that of its expression.
        expression: of a computed column, as it is written; `tree` is it as syntax.
        place: ``FIRST``, or the column that it comes after; None: at the end.
    """

    name: str
    type: DataType | None
    comment: str | None = None
    place: str | tuple[str] | None = None
    expression: str | None = None
    tree: exp.Expr | None = None


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE.

    Attributes:
        watermark: the column and the expression.
        tree: of CREATE TABLE … AS.
        like: the table whose columns, keys and options are taken over.
    """

    name: Name
    columns: tuple[ColumnDefinition, ...] = ()
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    watermark: tuple[str, str] | None = None
    using: str | None = None
    if_not_exists: bool = False
    tree: exp.Query | None = None
    like: Name = ()


@dataclass(frozen=True)
class AlterTable:
    """One change of a table.

    Attributes:
        action: ``add``, ``drop``, ``rename``, ``type``, ``comment``, ``move``, ``nullable``,
            ``set``, ``unset``, ``rename_table``, ``drop_partition``, ``watermark``.
        values: what the action takes.
    """

    name: Name
    action: str
    values: tuple[object, ...] = ()


@dataclass(frozen=True)
class Drop:
    """DROP TABLE, VIEW or DATABASE."""

    what: str
    name: Name
    if_exists: bool = False
    cascade: bool = False
    temporary: bool = False


@dataclass(frozen=True)
class CreateDatabase:
    """CREATE DATABASE."""

    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class Use:
    """USE a database."""

    name: str


@dataclass(frozen=True)
class CreateView:
    """CREATE VIEW.

    Attributes:
        columns: names in place of the query's; empty: the query's.
    """

    name: Name
    tree: exp.Query
    columns: tuple[str, ...] = ()
    temporary: bool = False
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class SetOption:
    """SET; without a key it lists what is set."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Reset:
    """RESET of one option, or of all."""

    key: str | None = None


@dataclass(frozen=True)
class Show:
    """SHOW.

    Attributes:
        what: ``tables``, ``views``, ``databases``, ``functions``, ``columns``, ``create``,
            ``create_view``, ``options``, ``partitions``, ``database``.
        of: the database or table.
        like: a pattern of ``*`` and ``%``.
        partition: values that partitions have, in PARTITION (…).
    """

    what: str
    of: Name = ()
    like: str | None = None
    partition: tuple[tuple[str, exp.Expr | None], ...] = ()


@dataclass(frozen=True)
class Describe:
    """DESCRIBE of a table, a view or a query."""

    name: Name = ()
    tree: exp.Query | None = None


@dataclass(frozen=True)
class Explain:
    """EXPLAIN of a query or of an INSERT."""

    statement: Query | Insert | StatementSet


@dataclass(frozen=True)
class Insert:
    """INSERT INTO or INSERT OVERWRITE.

    Attributes:
        columns: named; empty: all, in order.
        partition: fixed values of partition columns, as syntax.
        on_conflict: ``nothing``, ``error`` or ``deduplicate``.
    """

    name: Name
    tree: exp.Query
    columns: tuple[str, ...] = ()
    overwrite: bool = False
    partition: tuple[tuple[str, exp.Expr | None], ...] = ()
    on_conflict: str | None = None


@dataclass(frozen=True)
class StatementSet:
    """EXECUTE STATEMENT SET BEGIN … END."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True)
class Update:
    """UPDATE of rows."""

    name: Name
    alias: str | None
    values: tuple[tuple[str, exp.Expr], ...]
    where: exp.Expr | None


@dataclass(frozen=True)
class Delete:
    """DELETE of rows."""

    name: Name
    alias: str | None
    where: exp.Expr | None


@dataclass(frozen=True)
class Merge:
    """MERGE INTO, as syntax."""

    name: Name
    tree: exp.Merge


@dataclass(frozen=True)
class CompilePlan:
    """COMPILE PLAN 'path' FOR an INSERT or a statement set."""

    path: str
    statement: Insert | StatementSet
    if_not_exists: bool = False


@dataclass(frozen=True)
class ExecutePlan:
    """EXECUTE PLAN 'path'."""

    path: str
    if_exists: bool = False


Statement: TypeAlias = (
    Query
    | CreateTable
    | AlterTable
    | Drop
    | CreateDatabase
    | Use
    | CreateView
    | SetOption
    | Reset
    | Show
    | Describe
    | Explain
    | Insert
    | StatementSet
    | Update
    | Delete
    | Merge
    | CompilePlan
    | ExecutePlan
)
