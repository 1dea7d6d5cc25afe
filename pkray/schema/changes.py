"""Changes of a table's columns, options and comment, as users name them.

Source: Apache Paimon's schema changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pkray.arguments.checks import Give
from pkray.arguments.facade import Comment, Options
from pkray.errors import SchemaError
from pkray.schema.computed_columns import ComputedColumn
from pkray.schema.types import NamedType

ColumnName: TypeAlias = Annotated[
    str | Sequence[str], Give("a column, such as 'id': names are text", SchemaError)
]
"""A column, or a field of a ROW in it: ``"address.city"`` or ``("address", "city")``."""


FieldName: TypeAlias = Annotated[str, Give("a column, such as 'id': names are text", SchemaError)]
"""Next to a column, or next to a field of the same ROW."""


@dataclass(frozen=True)
class AddColumn:
    """A new nullable column, at the end by default; rows that are there have nulls."""

    name: ColumnName
    type: NamedType
    comment: Comment | None = None
    first: bool = False
    after: FieldName | None = None


@dataclass(frozen=True)
class AddComputedColumn:
    """A column that queries compute when they read the table, at the end by default."""

    column: ComputedColumn
    first: bool = False
    after: FieldName | None = None


@dataclass(frozen=True)
class DropColumn:
    """Removes a column."""

    name: ColumnName


@dataclass(frozen=True)
class RenameColumn:
    """The column keeps its rows; options that name it follow."""

    name: ColumnName
    new_name: FieldName


@dataclass(frozen=True)
class ChangeType:
    """A wider type. Whether the column is nullable stays."""

    name: ColumnName
    type: NamedType


@dataclass(frozen=True)
class ChangeNullability:
    """A column that changes from NOT NULL to nullable."""

    name: ColumnName
    nullable: bool = True


@dataclass(frozen=True)
class MoveColumn:
    """A column moved to the front, or after another one."""

    name: ColumnName
    first: bool = False
    after: FieldName | None = None


@dataclass(frozen=True)
class CommentColumn:
    """Changes a column's comment; None removes it."""

    name: ColumnName
    comment: Comment | None


@dataclass(frozen=True)
class SetOptions:
    """Sets options of the table."""

    options: Options


@dataclass(frozen=True)
class ChangeBuckets:
    """Changes the number of fixed buckets, for partitions to come; those with rows are
    rewritten."""

    buckets: int


@dataclass(frozen=True)
class UnsetOptions:
    """Takes options of the table back to their defaults."""

    keys: Sequence[str]


@dataclass(frozen=True)
class CommentTable:
    """Changes the table's comment; None removes it."""

    comment: Comment | None


SchemaChange: TypeAlias = (
    AddColumn
    | AddComputedColumn
    | DropColumn
    | RenameColumn
    | ChangeType
    | ChangeNullability
    | MoveColumn
    | CommentColumn
    | ChangeBuckets
    | SetOptions
    | UnsetOptions
    | CommentTable
)
