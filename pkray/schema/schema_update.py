"""Makes a table's next schema from one of it, change by change."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from pkray.arguments.facade import check_fields
from pkray.arguments.whole_number import whole_number
from pkray.errors import OptionError, SchemaError
from pkray.options import DYNAMIC, TableOptions, column_names
from pkray.options.immutable import check_set, check_unset
from pkray.schema import changes as schema_changes
from pkray.schema.checks import check_table
from pkray.schema.column_checks import check_comment, check_keys, check_names
from pkray.schema.columns import no_column
from pkray.schema.computed_columns import (
    ComputedColumn,
    all_columns,
    computed_columns,
    follow,
    names_column,
    with_columns,
)
from pkray.schema.fields import Fields, check_free, edit_fields, mapped, placed, renumbered, resolve
from pkray.schema.table_schema import TableSchema
from pkray.schema.type_change import check_widening
from pkray.schema.types import DataField, DataType, nesting_named


def apply_changes(
    schema: TableSchema,
    changes: Sequence[schema_changes.SchemaChange],
    *,
    has_snapshots: bool,
    now_millis: int,
) -> TableSchema:
    """Apply some changes, one after the other; return the schema after them.

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
    draft = SchemaUpdate(schema, has_snapshots)
    for change in changes:
        draft.apply(change)
    return draft.finish(now_millis)


class SchemaUpdate:
    """A schema under change: what could lose or change rows that are there is refused.

    Args:
        has_snapshots: whether rows may have been written: some options are fixed then.
    """

    def __init__(self, schema: TableSchema, has_snapshots: bool) -> None:
        self._schema = schema
        self._has_snapshots = has_snapshots
        self._ids = itertools.count(schema.highest_field_id + 1)
        self._highest = schema.highest_field_id
        self._steps: dict[type, Callable[..., None]] = {
            schema_changes.AddColumn: self._add,
            schema_changes.AddComputedColumn: self._add_computed,
            schema_changes.DropColumn: self._drop,
            schema_changes.RenameColumn: self._rename,
            schema_changes.ChangeType: self._change_type,
            schema_changes.ChangeNullability: self._change_nullability,
            schema_changes.MoveColumn: self._move,
            schema_changes.CommentColumn: self._comment_column,
            schema_changes.ChangeBuckets: self._change_buckets,
            schema_changes.SetOptions: self._set_options,
            schema_changes.UnsetOptions: self._unset_options,
            schema_changes.CommentTable: self._comment_table,
        }

    def apply(self, change: schema_changes.SchemaChange) -> None:
        """Make one change.

        Raises:
            As `apply_changes`.
        """
        step = self._steps.get(type(change))
        if step is None:
            known = ", ".join(kind.__name__ for kind in self._steps)
            raise SchemaError(f"{change!r} is no change of a schema: use {known}", value=change)
        check_fields(change)
        name = getattr(change, "name", None)
        if isinstance(
            change,
            schema_changes.ChangeType
            | schema_changes.ChangeNullability
            | schema_changes.MoveColumn,
        ) and self._computed(name):
            raise SchemaError(
                f"column {name!r} is computed: drop it, and add it anew as it is to be", column=name
            )
        with nesting_named(path_text(getattr(change, "name", ""))):
            step(change)

    def finish(self, now_millis: int) -> TableSchema:
        """Make the schema of the next id, if it makes a table."""
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

    def _add(self, change: schema_changes.AddColumn) -> None:
        check_comment(change.comment)
        data_type = DataType.given(change.type)
        if not data_type.nullable:
            raise SchemaError(
                f"column {path_text(change.name)!r} cannot be added as {data_type}: rows that are "
                "there have no value of it; leave NOT NULL out",
                column=path_text(change.name),
                value=str(data_type),
            )
        added = DataField(self._next_id(), "", renumbered(data_type, self._next_id), change.comment)
        self._check_not_computed(change.name)

        def edit(fields: Fields, name: str) -> Fields:
            check_free(fields, name)
            return placed(fields, replace(added, name=name), change.first, change.after)

        self._edit(resolve(self._schema.fields, change.name, new=True), edit)

    def _add_computed(self, change: schema_changes.AddComputedColumn) -> None:
        name = change.column.name
        check_comment(change.column.comment)
        check_names([name])
        check_free(self._schema.fields, name)
        self._check_not_computed(name)
        columns = all_columns(self._schema.fields, self._schema.options)
        names = [each.name for each in columns]
        if change.after is not None and change.after not in names:
            raise no_column(change.after, names)
        place = len(columns) if change.after is None else names.index(change.after) + 1
        columns.insert(0 if change.first else place, change.column)
        options = with_columns(self._schema.options, columns)
        self._schema = replace(self._schema, options=options)

    def _drop(self, change: schema_changes.DropColumn) -> None:
        if self._computed(change.name):
            self._change_computed(change.name, None)
            return
        path = resolve(self._schema.fields, change.name)
        check_not_key(self._schema, path, "dropped")
        check_not_named(self._schema, path)
        check_not_read(self._schema, path, "dropped")

        def edit(fields: Fields, name: str) -> Fields:
            kept = tuple(field for field in fields if field.name != name)
            if not kept:
                raise SchemaError(
                    f"column {path_text(path)!r} is the only one: it cannot be dropped",
                    column=path_text(path),
                )
            return kept

        self._edit(path, edit)

    def _rename(self, change: schema_changes.RenameColumn) -> None:
        if found := self._computed(change.name):
            check_free(self._schema.fields, change.new_name)
            self._check_not_computed(change.new_name)
            self._change_computed(change.name, replace(found, name=change.new_name))
            return
        path = resolve(self._schema.fields, change.name)
        if path[0] in self._schema.partition_keys and len(path) == 1:
            check_not_key(self._schema, path, "renamed")
        if change.new_name == path[-1]:
            return
        check_not_read(self._schema, path, "renamed")
        if len(path) == 1:
            self._check_not_computed(change.new_name)

        def edit(fields: Fields, name: str) -> Fields:
            check_free(fields, change.new_name)
            return mapped(fields, name, lambda field: replace(field, name=change.new_name))

        self._edit(path, edit)
        options = self._schema.options
        if len(path) > 1:
            options = column_names.renamed_nested(options, path[0], path[-1], change.new_name)
            self._schema = replace(self._schema, options=options)
            return
        self._schema = replace(
            self._schema,
            options=column_names.renamed(options, path[0], change.new_name),
            primary_keys=tuple(
                change.new_name if key == path[0] else key for key in self._schema.primary_keys
            ),
        )

    def _change_type(self, change: schema_changes.ChangeType) -> None:
        path = resolve(self._schema.fields, change.name)
        new = DataType.given(change.type)
        check_not_key(self._schema, path, "retyped", f" as {new}")
        if len(path) == 1 and path[0] == self._schema.core.record_level_time_field:
            check_not_named(self._schema, path)

        def widen(field: DataField) -> DataField:
            if field.type.nullable and not new.nullable:
                raise tightened(path, new)
            check_widening(path_text(path), field.type, new)
            return replace(field, type=new.with_nullable(field.type.nullable))

        self._edit(path, lambda fields, name: mapped(fields, name, widen))

    def _change_nullability(self, change: schema_changes.ChangeNullability) -> None:
        path = resolve(self._schema.fields, change.name)
        if change.nullable and len(path) == 1 and path[0] in self._schema.primary_keys:
            raise SchemaError(
                f"column {path[0]!r} is of the primary key, which holds no nulls: leave it NOT "
                "NULL",
                column=path[0],
            )

        def loosen(field: DataField) -> DataField:
            if field.type.nullable and not change.nullable:
                raise tightened(path, field.type.with_nullable(False))
            return replace(field, type=field.type.with_nullable(change.nullable))

        self._edit(path, lambda fields, name: mapped(fields, name, loosen))

    def _move(self, change: schema_changes.MoveColumn) -> None:
        path = resolve(self._schema.fields, change.name)
        if change.first == (change.after is not None):
            raise SchemaError(
                f"column {path_text(path)!r} moves somewhere: give first=True or after=<column>",
                column=path_text(path),
                arguments=("first=True", "after=<column>"),
            )
        if change.after == path[-1]:
            raise SchemaError(
                f"column {path_text(path)!r} cannot move after itself: name another column",
                column=path_text(path),
            )

        def edit(fields: Fields, name: str) -> Fields:
            moved = next(field for field in fields if field.name == name)
            rest = tuple(field for field in fields if field is not moved)
            return placed(rest, moved, change.first, change.after)

        self._edit(path, edit)

    def _comment_column(self, change: schema_changes.CommentColumn) -> None:
        check_comment(change.comment)
        if found := self._computed(change.name):
            self._change_computed(change.name, replace(found, comment=change.comment))
            return

        def edit(fields: Fields, name: str) -> Fields:
            return mapped(fields, name, lambda field: replace(field, description=change.comment))

        self._edit(resolve(self._schema.fields, change.name), edit)

    def _set_options(self, change: schema_changes.SetOptions) -> None:
        new = dict(change.options)
        TableOptions.parse(new, strict=True)
        if self._has_snapshots:
            check_set(self._schema.options, new)
        self._schema = replace(self._schema, options={**self._schema.options, **new})

    def _change_buckets(self, change: schema_changes.ChangeBuckets) -> None:
        if self._schema.core.bucket == DYNAMIC or whole_number("buckets", change.buckets, 0) < 1:
            raise OptionError(
                f"the table's bucket = {self._schema.core.bucket} cannot become {change.buckets}: "
                "tables of fixed buckets take another number of at least 1, dynamic buckets grow "
                "by themselves",
                key="bucket",
                value=str(change.buckets),
            )
        options = {**self._schema.options, "bucket": str(change.buckets)}
        self._schema = replace(self._schema, options=options)

    def _unset_options(self, change: schema_changes.UnsetOptions) -> None:
        if isinstance(change.keys, str):
            raise SchemaError(f"keys is a list of option keys: write [{change.keys!r}]")
        check_unset(self._schema.options, change.keys, has_snapshots=self._has_snapshots)
        options = {k: v for k, v in self._schema.options.items() if k not in set(change.keys)}
        self._schema = replace(self._schema, options=options)

    def _comment_table(self, change: schema_changes.CommentTable) -> None:
        check_comment(change.comment)
        self._schema = replace(self._schema, comment=change.comment)

    def _edit(self, path: tuple[str, ...], edit: Callable[[Fields, str], Fields]) -> None:
        before = self._schema.fields
        fields = edit_fields(before, path, edit)
        options = follow(self._schema.options, before, fields)
        self._schema = replace(self._schema, fields=fields, options=options)

    def _computed(self, name: object) -> ComputedColumn | None:
        """Find a computed column; None where none is called so."""
        found = computed_columns(self._schema.fields, self._schema.options)
        return next((each for each in found if each.name == name), None)

    def _check_not_computed(self, name: schema_changes.ColumnName) -> None:
        if self._computed(name):
            raise SchemaError(
                f"column {path_text(name)!r} is there already, and computed: choose another name, "
                "or drop it first",
                column=path_text(name),
            )

    def _change_computed(self, name: schema_changes.ColumnName, new: ComputedColumn | None) -> None:
        """Put another computed column in the place of one; None: leave it out."""
        if new is None or new.name != name:
            what = "dropped" if new is None else "renamed"
            check_no_watermark(self._schema, path_text(name), what)
        columns = all_columns(self._schema.fields, self._schema.options)
        changed = [
            new if isinstance(each, ComputedColumn) and each.name == name else each
            for each in columns
        ]
        kept = [each for each in changed if each is not None]
        options = with_columns(self._schema.options, kept)
        self._schema = replace(self._schema, options=options)

    def _next_id(self) -> int:
        self._highest = next(self._ids)
        return self._highest


def check_not_key(schema: TableSchema, path: tuple[str, ...], what: str, how: str = "") -> None:
    """Raise a SchemaError for a column of a key, by which files are laid out.

    Args:
        what, how: was to be done with it.
    """
    for kind, keys in (
        ("partition column", schema.partition_keys),
        ("column of the primary key", schema.primary_keys),
    ):
        if len(path) == 1 and path[0] in keys:
            raise SchemaError(
                f"column {path[0]!r} is a {kind} and cannot be {what}{how}: files are laid "
                "out by it; create another table and copy the rows",
                column=path[0],
            )


def check_not_named(schema: TableSchema, path: tuple[str, ...]) -> None:
    """Raise a SchemaError where options would speak of a column that is not there."""
    options = schema.options
    keys = column_names.keys_naming(options, path[0]) if len(path) == 1 else []
    if len(path) > 1:
        keys = column_names.nested_keys_naming(options, path[0], path[-1])
    if keys:
        said = ", ".join(f"{key} = {options[key]}" for key in keys)
        raise SchemaError(
            f"column {path_text(path)!r} is named by the options {said}: change or unset them "
            "first, where the table lets you",
            column=path_text(path),
            options=tuple(keys),
        )


def check_not_read(schema: TableSchema, path: tuple[str, ...], what: str) -> None:
    """Raise a SchemaError for a column that computed columns, or the watermark, may read.

    Args:
        what: was to be done with it.
    """
    for each in computed_columns(schema.fields, schema.options):
        if each.reads(path[0]) and each.reads(path[-1]):
            raise SchemaError(
                f"column {path_text(path)!r} cannot be {what}: the computed column {each.name} AS "
                f"{each.expression} reads it; drop that one first",
                column=path_text(path),
                computed=each.name,
            )
    if len(path) == 1:
        check_no_watermark(schema, path[0], what)


def check_no_watermark(schema: TableSchema, name: str, what: str) -> None:
    """Raise a SchemaError for a column that the watermark may read.

    Args:
        what: was to be done with it.
    """
    time, expression = schema.core.watermark_column, schema.core.watermark_expression
    if time is not None and (time == name or names_column(expression, name)):
        raise SchemaError(
            f"column {name!r} cannot be {what}: the watermark FOR {time} AS {expression or time} "
            "reads it; drop the watermark first",
            column=name,
        )


def tightened(path: tuple[str, ...], wanted: DataType) -> SchemaError:
    """Make the error for a nullable column that was to be ``wanted``, which is NOT NULL."""
    return SchemaError(
        f"column {path_text(path)!r} is nullable and cannot become {wanted}: rows that are there "
        "may hold nulls; add another column and fill it",
        column=path_text(path),
        value=str(wanted),
    )


def path_text(name: schema_changes.ColumnName) -> str:
    """Write a column as messages name it."""
    return name if isinstance(name, str) else ".".join(name)
