"""Changes of a table's columns, options and comments."""

from collections.abc import Callable, Mapping, Sequence

from pkray.arguments.facade import Comment, Options, checked_class
from pkray.clock import now_millis
from pkray.errors import SchemaError
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.options import as_options
from pkray.rows.new_columns import new_columns
from pkray.schema.changes import (
    AddColumn,
    ChangeNullability,
    ChangeType,
    ColumnName,
    CommentColumn,
    CommentTable,
    DropColumn,
    FieldName,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetOptions,
    UnsetOptions,
)
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import NamedType
from pkray.storage.object_store import ObjectStore

WATERMARK = ("schema.watermark.0.", "pkray.schema.watermark.0.")
"""How the options begin that declare a watermark: the second, of one that Flink cannot read."""
_MERGES = 10
"""Tries to add columns; each that fails, another process has changed the table."""


@checked_class
class Alter:
    """Changes a table's schema; ``table.alter``.

    Each change makes a schema of the next id; files that are there stay as they are and are read
    under it. Writers that are open go on: their rows are turned into the table's at the owner,
    columns they do not know are null. Readers of other processes see it when they load the table
    again. A column is named by its name, a field of a ROW as ``"address.city"``.

    All raise SchemaError for a change that is not safe, OptionError and UnsupportedError as
    `Catalog.create_table`; nothing has changed then.

    Args:
        store: the table's root.
        table: its name.
        changed: told the new schema.
    """

    def __init__(
        self, store: ObjectStore, table: str, changed: Callable[[TableSchema], None]
    ) -> None:
        self._table = table
        self._schemas = SchemaStore(store, table)
        self._snapshots = SnapshotStore(store)
        self._changed = changed
        self._table = table

    def __repr__(self) -> str:
        return f"Alter({self._table!r})"

    def add_column(
        self,
        name: ColumnName,
        type: NamedType,
        comment: Comment | None = None,
        first: bool = False,
        after: FieldName | None = None,
    ) -> TableSchema:
        """Add a nullable column, at the end by default; rows that are there have nulls."""
        return self.apply([AddColumn(name, type, comment, first, after)])

    def drop_column(self, name: ColumnName) -> TableSchema:
        """Drop a column; not one of a key, nor one that options or computed columns name."""
        return self.apply([DropColumn(name)])

    def rename_column(self, name: ColumnName, new_name: FieldName) -> TableSchema:
        """Rename a column; options that name it follow. Not one of the partition, nor one that
        computed columns read."""
        return self.apply([RenameColumn(name, new_name)])

    def change_type(self, name: ColumnName, type: NamedType) -> TableSchema:
        """Give a column a wider type, such as BIGINT for INT; whether it is nullable stays."""
        return self.apply([ChangeType(name, type)])

    def change_nullability(self, name: ColumnName, nullable: bool = True) -> TableSchema:
        """Let a NOT NULL column hold nulls."""
        return self.apply([ChangeNullability(name, nullable)])

    def move_column(
        self, name: ColumnName, first: bool = False, after: FieldName | None = None
    ) -> TableSchema:
        """Move a column to the front, or behind another."""
        return self.apply([MoveColumn(name, first, after)])

    def comment_column(self, name: ColumnName, comment: Comment | None) -> TableSchema:
        """Describe a column; None removes the comment."""
        return self.apply([CommentColumn(name, comment)])

    def comment_table(self, comment: Comment | None) -> TableSchema:
        """Describe the table; None removes the comment."""
        return self.apply([CommentTable(comment)])

    def set_options(self, options: Options) -> TableSchema:
        """Set table options.

        Raises:
            OptionError: one is unknown, has a bad value, or is fixed once a table has rows.
        """
        return self.apply([SetOptions(as_options(options))])

    def unset_options(self, keys: Sequence[str]) -> TableSchema:
        """Give table options their defaults.

        Raises:
            OptionError: one is not set, or is fixed once a table has rows.
        """
        return self.apply([UnsetOptions(keys)])

    def drop_watermark(self) -> TableSchema:
        """Declare no watermark any more; nothing where there is none."""
        schema = self._schemas.latest()
        there = [key for key in schema.options if key.startswith(WATERMARK)]
        return self.unset_options(there) if there else schema

    def merge_schema(self, data: object, row_kinds: str | None = None) -> TableSchema:
        """Add the columns that rows have and the table lacks, nullable, at the end.

        Columns that another process adds meanwhile are taken as they are.

        Args:
            data: rows, or a ``pa.Schema``.
            row_kinds: a column of it that holds row kinds and is not to be added.

        Raises:
            InputError, UnsupportedError: a new column has no type that tables have.
        """
        for _ in range(_MERGES):
            schema = self._schemas.latest()
            added = new_columns(data, schema, row_kinds)
            try:
                if added:
                    return self.apply(added)
            except SchemaError:
                if self._schemas.latest().id == schema.id:
                    raise
                continue
            self._changed(schema)
            return schema
        raise SchemaError(
            f"columns of the rows were not added to {self._table!r}: other processes kept "
            "changing its columns; write the rows again"
        )

    def apply(self, changes: Sequence[SchemaChange]) -> TableSchema:
        """Make changes (see `pkray.schema.changes`) one after the other, all or none of them.

        If another process changes the table at the same time, they are made on top of its.
        """
        schema = self._schemas.change(
            list(changes),
            has_snapshots=lambda: self._snapshots.latest_id() is not None,
            clock=now_millis,
        )
        self._changed(schema)
        return schema


def watermark_changes(schema: TableSchema, options: Mapping[str, str]) -> list[SchemaChange]:
    """Declare a watermark, as options say it, in place of the one that is there."""
    old = [key for key in schema.options if key.startswith(WATERMARK) and key not in options]
    return [*([UnsetOptions(old)] if old else []), SetOptions(options)]
