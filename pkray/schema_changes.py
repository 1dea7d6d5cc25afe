"""Changes of a table's columns, options and comment: from one schema to the next.

Source: Apache Paimon's schema changes. What could lose or change rows that are there is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pkray import option_columns
from pkray.columns import no_column
from pkray.errors import OptionError, SchemaError
from pkray.immutable_options import check_set, check_unset
from pkray.options import DYNAMIC, TableOptions
from pkray.schema import TableSchema
from pkray.schema_checks import check_keys, check_names, check_table
from pkray.schema_fields import Fields, edit_fields, renumbered, resolve
from pkray.type_widening import check_widening
from pkray.types import DataField, DataType

ColumnName: TypeAlias = str | Sequence[str]
"""A column, or a field of a ROW in it: ``"address.city"`` or ``("address", "city")``."""


@dataclass(frozen=True)
class AddColumn:
    """A new nullable column, at the end unless told otherwise; rows that are there have nulls."""

    name: ColumnName
    type: str | DataType
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
    type: str | DataType


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


def apply_changes(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    has_snapshots: bool,
    now_millis: int,
) -> TableSchema:
    """The schema after some changes, made one after the other.

    Args:
        has_snapshots: whether rows may have been written: some options are fixed then.
        now_millis: when, in epoch milliseconds.

    Returns:
        A schema of the next id; field ids are never used again.

    Raises:
        SchemaError: a change that is unsafe, or that leaves no table.
        OptionError: an unknown option, a bad value, or one that is fixed.
        UnsupportedError: types and options that pkray does not have.
    """
    if not changes:
        raise SchemaError("no changes were given: name at least one")
    draft = _Draft(schema, has_snapshots)
    for change in changes:
        draft.apply(change)
    return draft.finish(now_millis)


class _Draft:
    """A schema under change."""

    def __init__(self, schema: TableSchema, has_snapshots: bool) -> None:
        self._schema = schema
        self._has_snapshots = has_snapshots
        self._ids = itertools.count(schema.highest_field_id + 1)
        self._highest = schema.highest_field_id
        self._steps: dict[type, Callable[..., None]] = {
            AddColumn: self._add,
            DropColumn: self._drop,
            RenameColumn: self._rename,
            ChangeType: self._change_type,
            ChangeNullability: self._change_nullability,
            MoveColumn: self._move,
            CommentColumn: self._comment_column,
            ChangeBuckets: self._change_buckets,
            SetOptions: self._set_options,
            UnsetOptions: self._unset_options,
            CommentTable: self._comment_table,
        }

    def apply(self, change: SchemaChange) -> None:
        step = self._steps.get(type(change))
        if step is None:
            known = ", ".join(kind.__name__ for kind in self._steps)
            raise SchemaError(f"{change!r} is no change of a schema: use {known}", value=change)
        step(change)

    def finish(self, now_millis: int) -> TableSchema:
        schema = self._schema
        check_names(schema.names)
        check_keys(
            {field.name: field.type for field in schema.fields},
            schema.primary_keys,
            schema.partition_keys,
        )
        changed = replace(
            schema, id=schema.id + 1, highest_field_id=self._highest, time_millis=now_millis
        )
        check_table(changed)
        return changed

    def _add(self, change: AddColumn) -> None:
        data_type = _parsed(change.type)
        if not data_type.nullable:
            raise SchemaError(
                f"column {_text(change.name)!r} cannot be added as {data_type}: rows that are "
                "there have no value of it; leave NOT NULL out",
                column=_text(change.name),
                value=str(data_type),
            )
        added = DataField(self._next_id(), "", self._with_ids(data_type), change.comment)

        def edit(fields: Fields, name: str) -> Fields:
            _refuse_taken(fields, name)
            return _placed(fields, replace(added, name=name), change.first, change.after)

        self._edit(resolve(self._schema.fields, change.name, new=True), edit)

    def _drop(self, change: DropColumn) -> None:
        path = resolve(self._schema.fields, change.name)
        self._refuse_key(path, "dropped")
        self._refuse_named(path)

        def edit(fields: Fields, name: str) -> Fields:
            kept = tuple(field for field in fields if field.name != name)
            if not kept:
                raise SchemaError(
                    f"column {_text(path)!r} is the only one: it cannot be dropped",
                    column=_text(path),
                )
            return kept

        self._edit(path, edit)

    def _rename(self, change: RenameColumn) -> None:
        path = resolve(self._schema.fields, change.name)
        if path[0] in self._schema.partition_keys and len(path) == 1:
            self._refuse_key(path, "renamed")
        if change.new_name == path[-1]:
            return

        def edit(fields: Fields, name: str) -> Fields:
            _refuse_taken(fields, change.new_name)
            return _mapped(fields, name, lambda field: replace(field, name=change.new_name))

        self._edit(path, edit)
        options = self._schema.options
        if len(path) > 1:
            options = option_columns.renamed_nested(options, path[0], path[-1], change.new_name)
            self._schema = replace(self._schema, options=options)
            return
        self._schema = replace(
            self._schema,
            options=option_columns.renamed(options, path[0], change.new_name),
            primary_keys=tuple(
                change.new_name if key == path[0] else key for key in self._schema.primary_keys
            ),
        )

    def _change_type(self, change: ChangeType) -> None:
        path = resolve(self._schema.fields, change.name)
        new = _parsed(change.type)
        self._refuse_key(path, "retyped", f" as {new}")
        if len(path) == 1 and path[0] == self._schema.core.record_level_time_field:
            self._refuse_named(path)

        def widen(field: DataField) -> DataField:
            if field.type.nullable and not new.nullable:
                raise _tightened(path, new)
            check_widening(_text(path), field.type, new)
            return replace(field, type=new.with_nullable(field.type.nullable))

        self._edit(path, lambda fields, name: _mapped(fields, name, widen))

    def _change_nullability(self, change: ChangeNullability) -> None:
        path = resolve(self._schema.fields, change.name)
        if change.nullable and len(path) == 1 and path[0] in self._schema.primary_keys:
            raise SchemaError(
                f"column {path[0]!r} is of the primary key, which holds no nulls: leave it NOT "
                "NULL",
                column=path[0],
            )

        def loosen(field: DataField) -> DataField:
            if field.type.nullable and not change.nullable:
                raise _tightened(path, field.type.with_nullable(False))
            return replace(field, type=field.type.with_nullable(change.nullable))

        self._edit(path, lambda fields, name: _mapped(fields, name, loosen))

    def _move(self, change: MoveColumn) -> None:
        path = resolve(self._schema.fields, change.name)
        if change.first == (change.after is not None):
            raise SchemaError(
                f"column {_text(path)!r} moves somewhere: give first=True or after=<column>",
                column=_text(path),
            )
        if change.after == path[-1]:
            raise SchemaError(
                f"column {_text(path)!r} cannot move behind itself: name another column",
                column=_text(path),
            )

        def edit(fields: Fields, name: str) -> Fields:
            moved = next(field for field in fields if field.name == name)
            rest = tuple(field for field in fields if field is not moved)
            return _placed(rest, moved, change.first, change.after)

        self._edit(path, edit)

    def _comment_column(self, change: CommentColumn) -> None:
        def edit(fields: Fields, name: str) -> Fields:
            return _mapped(fields, name, lambda field: replace(field, description=change.comment))

        self._edit(resolve(self._schema.fields, change.name), edit)

    def _set_options(self, change: SetOptions) -> None:
        new = dict(change.options)
        TableOptions.parse(new, strict=True)
        if self._has_snapshots:
            check_set(self._schema.options, new)
        self._schema = replace(self._schema, options={**self._schema.options, **new})

    def _change_buckets(self, change: ChangeBuckets) -> None:
        if self._schema.core.bucket == DYNAMIC or change.buckets < 1:
            raise OptionError(
                f"the table's bucket = {self._schema.core.bucket} cannot become {change.buckets}: "
                "tables of fixed buckets take another number of at least 1, dynamic buckets grow "
                "by themselves",
                key="bucket",
                value=str(change.buckets),
            )
        options = {**self._schema.options, "bucket": str(change.buckets)}
        self._schema = replace(self._schema, options=options)

    def _unset_options(self, change: UnsetOptions) -> None:
        if isinstance(change.keys, str):
            raise SchemaError(f"keys is a list of option keys: write [{change.keys!r}]")
        check_unset(self._schema.options, change.keys, has_snapshots=self._has_snapshots)
        options = {k: v for k, v in self._schema.options.items() if k not in set(change.keys)}
        self._schema = replace(self._schema, options=options)

    def _comment_table(self, change: CommentTable) -> None:
        self._schema = replace(self._schema, comment=change.comment)

    def _edit(self, path: tuple[str, ...], edit: Callable[[Fields, str], Fields]) -> None:
        self._schema = replace(self._schema, fields=edit_fields(self._schema.fields, path, edit))

    def _next_id(self) -> int:
        self._highest = next(self._ids)
        return self._highest

    def _with_ids(self, data_type: DataType) -> DataType:
        return renumbered(data_type, self._next_id)

    def _refuse_key(self, path: tuple[str, ...], what: str, how: str = "") -> None:
        for kind, keys in (
            ("partition column", self._schema.partition_keys),
            ("column of the primary key", self._schema.primary_keys),
        ):
            if len(path) == 1 and path[0] in keys:
                raise SchemaError(
                    f"column {path[0]!r} is a {kind} and cannot be {what}{how}: files are laid "
                    "out by it; create another table and copy the rows",
                    column=path[0],
                )

    def _refuse_named(self, path: tuple[str, ...]) -> None:
        """Options would speak of a column that is not there."""
        options = self._schema.options
        keys = option_columns.keys_naming(options, path[0]) if len(path) == 1 else []
        if len(path) > 1:
            keys = option_columns.nested_keys_naming(options, path[0], path[-1])
        if keys:
            said = ", ".join(f"{key} = {options[key]}" for key in keys)
            raise SchemaError(
                f"column {_text(path)!r} is named by the options {said}: change or unset them "
                "first, where the table lets you",
                column=_text(path),
                options=tuple(keys),
            )


def _parsed(said: str | DataType) -> DataType:
    return said if isinstance(said, DataType) else DataType.parse(said)


def _text(name: ColumnName) -> str:
    return name if isinstance(name, str) else ".".join(name)


def _refuse_taken(fields: Fields, name: str) -> None:
    if any(field.name == name for field in fields):
        raise SchemaError(
            f"column {name!r} is there already: choose another name, or drop it first", column=name
        )


def _tightened(path: tuple[str, ...], wanted: DataType) -> SchemaError:
    return SchemaError(
        f"column {_text(path)!r} is nullable and cannot become {wanted}: rows that are there may "
        "hold nulls; add another column and fill it",
        column=_text(path),
        value=str(wanted),
    )


def _placed(fields: Fields, field: DataField, first: bool, after: str | None) -> Fields:
    if first and after is not None:
        raise SchemaError(
            f"column {field.name!r} cannot be first and after {after!r}: give one of them",
            column=field.name,
        )
    if first:
        return (field, *fields)
    if after is None:
        return (*fields, field)
    names = [other.name for other in fields]
    if after not in names:
        raise no_column(after, names)
    place = names.index(after) + 1
    return (*fields[:place], field, *fields[place:])


def _mapped(fields: Fields, name: str, change: Callable[[DataField], DataField]) -> Fields:
    return tuple(change(field) if field.name == name else field for field in fields)
