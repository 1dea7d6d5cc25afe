"""Changes of a table's columns, options and comment, as users name them.

Source: Apache Paimon's schema changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pkray.types import NamedType

ColumnName: TypeAlias = str | Sequence[str]
"""A column, or a field of a ROW in it: ``"address.city"`` or ``("address", "city")``."""


@dataclass(frozen=True)
class AddColumn:
    """A new nullable column, at the end unless told otherwise; rows that are there have nulls."""

    name: ColumnName
    type: NamedType
    comment: str | None = None
    first: bool = False
    after: str | None = None


@dataclass(frozen=True)
class DropColumn:
    name: ColumnName


@dataclass(frozen=True)
class RenameColumn:
    """The column keeps its rows; options that name it follow."""

    name: ColumnName
    new_name: str


@dataclass(frozen=True)
class ChangeType:
    """A wider type. Whether the column is nullable stays."""

    name: ColumnName
    type: NamedType


@dataclass(frozen=True)
class ChangeNullability:
    """From NOT NULL to nullable."""

    name: ColumnName
    nullable: bool = True


@dataclass(frozen=True)
class MoveColumn:
    """To the front, or behind another column."""

    name: ColumnName
    first: bool = False
    after: str | None = None


@dataclass(frozen=True)
class CommentColumn:
    """None removes the comment."""

    name: ColumnName
    comment: str | None


@dataclass(frozen=True)
class SetOptions:
    options: Mapping[str, str]


@dataclass(frozen=True)
class ChangeBuckets:
    """Another number of fixed buckets, for partitions to come; those with rows are rewritten."""

    buckets: int


@dataclass(frozen=True)
class UnsetOptions:
    keys: Sequence[str]


@dataclass(frozen=True)
class CommentTable:
    """None removes the comment."""

    comment: str | None


SchemaChange: TypeAlias = (
    AddColumn
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
