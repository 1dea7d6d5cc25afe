"""A table's schema: its columns, keys and options, as Paimon's ``schema/schema-<n>`` holds them."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import pyarrow as pa

from pkray.arguments.checks import Give
from pkray.arguments.facade import ColumnNames, Comment, Options, checked
from pkray.checksums import check_json, seal_json
from pkray.errors import CorruptFileError, SchemaError, UnsupportedError
from pkray.json_files import values
from pkray.options import TableOptions
from pkray.schema.checks import check_table
from pkray.schema.column_checks import check_comment, check_keys, check_names
from pkray.schema.columns import KEY_PREFIX, KIND, SEQUENCE, check_name_list, no_column
from pkray.schema.default_values import default_value
from pkray.schema.fields import renumbered
from pkray.schema.types import DataField, DataType, NamedType, nesting_named

__all__ = ["KEY_PREFIX", "KIND", "SEQUENCE", "VERSION", "TableSchema"]

VERSION = 3
_SHOWN = 8
"""Columns that a schema prints."""

Columns: TypeAlias = Annotated[
    pa.Schema | Sequence[tuple[str, NamedType]] | Mapping[str, NamedType],
    Give("a pyarrow schema, or pairs of a name and a type such as ('id', 'BIGINT')", SchemaError),
]


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema.

    Args:
        id: the schema's number, from 0.
        fields: the columns in order; primary key columns are NOT NULL.
        highest_field_id: the largest field id ever given, nested fields included.
        primary_keys: in declared order, partition columns included.
        options: Paimon's option keys with values as text.
        time_millis: when it was made, in epoch milliseconds.
        version: of the JSON form; 3 is Paimon 0.9's.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: dict[str, str] = field(hash=False)
    comment: str | None
    time_millis: int
    version: int = VERSION

    @classmethod
    @checked
    def create(
        cls,
        schema: Columns,
        primary_keys: ColumnNames,
        partition_keys: ColumnNames = (),
        options: Options | None = None,
        comment: Comment | None = None,
        now_millis: int = 0,
    ) -> TableSchema:
        """Make the first schema of a new table, checked whole.

        Args:
            schema: an Arrow schema, or names and types (pairs or a mapping) with types as in
                ``BIGINT NOT NULL``.
            options: without ``bucket``, 1 is written into them.

        Raises:
            SchemaError: columns, keys and options that do not make a table.
            OptionError: an unknown option or a bad value.
            UnsupportedError: types, options or tables that pkray does not have.
        """
        columns = list(_columns(schema))
        keys, partitions = (
            _name_list("primary_keys", primary_keys),
            _name_list("partition_keys", partition_keys),
        )
        check_names([name for name, _, _ in columns])
        check_comment(comment)
        check_keys({name: data_type for name, data_type, _ in columns}, keys, partitions)
        ids = itertools.count()
        fields = tuple(
            DataField(
                next(ids),
                name,
                renumbered(_keyed(data_type, name in keys), ids.__next__),
                description,
            )
            for name, data_type, description in columns
        )
        options = {"bucket": "1", **dict(options or {})}
        TableOptions.parse(options, strict=True)
        created = cls(
            0, fields, next(ids) - 1, partitions, keys, options, comment, now_millis, VERSION
        )
        check_table(created)
        return created

    def __repr__(self) -> str:
        columns = ", ".join(f"{each.name!r} {each.type}" for each in self.fields[:_SHOWN])
        more = f", {len(self.fields) - _SHOWN} more" if len(self.fields) > _SHOWN else ""
        return f"TableSchema({self.id}, {columns}{more}, primary key {self.primary_keys})"

    @cached_property
    def core(self) -> TableOptions:
        """Parse the options; keys that nobody knows are let be, as other engines write theirs."""
        return TableOptions.parse(self.options, strict=False)

    @cached_property
    def digest(self) -> str:
        """A hash that tells it from others that have had its id: 16 hexadecimal digits."""
        return hashlib.blake2b(self.to_json(), digest_size=8).hexdigest()

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Return the columns with their canonical Arrow types."""
        return pa.schema([column.arrow for column in self.fields])

    @cached_property
    def default_values(self) -> dict[str, pa.Scalar]:
        """Map columns to the default values that readers see in them instead of null.

        Raises:
            SchemaError, UnsupportedError: a default that is none of its column's values.
        """
        return {
            name: default_value(said.default_value, self.field(name).type, name)
            for name, said in self.core.fields.items()
            if said.default_value is not None and name in self.names
        }

    @cached_property
    def row_schema(self) -> pa.Schema:
        """Return the columns of key-value rows: sequence number, row kind, values."""
        system = [pa.field(SEQUENCE, pa.int64()), pa.field(KIND, pa.int8())]
        return pa.schema([*system, *self.arrow_schema])

    @cached_property
    def file_schema(self) -> pa.Schema:
        """Return a data or changelog file's columns: key columns, sequence number, row kind,
        values."""
        keys = [self.field(name) for name in self.trimmed_primary_keys]
        system = [pa.field(KEY_PREFIX + key.name, key.type.arrow, nullable=False) for key in keys]
        system.append(pa.field(SEQUENCE, pa.int64(), nullable=False))
        system.append(pa.field(KIND, pa.int8(), nullable=False))
        return pa.schema([*system, *self.arrow_schema])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the columns' names in order."""
        return tuple(column.name for column in self.fields)

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Return the primary key less the partition columns, in declared order: the key in a
        bucket."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @cached_property
    def bucket_keys(self) -> tuple[str, ...]:
        """Return the columns whose hash picks the bucket."""
        return self.core.bucket_key or self.trimmed_primary_keys

    @property
    def crosses_partitions(self) -> bool:
        """Whether a key can move from one partition to another."""
        return not set(self.partition_keys) <= set(self.primary_keys)

    @cached_property
    def _by_name(self) -> dict[str, DataField]:
        return {column.name: column for column in self.fields}

    def field(self, name: str) -> DataField:
        """Return the column of this name.

        Raises:
            SchemaError: there is none; the message names the nearest.
        """
        try:
            return self._by_name[name]
        except KeyError:
            raise no_column(name, self.names) from None
        except TypeError:
            raise no_column(f"a {type(name).__name__}", self.names) from None

    def types(self, names: Iterable[str]) -> list[DataType]:
        """Return the types of these columns."""
        return [self.field(name).type for name in names]

    def to_json(self) -> bytes:
        """Write the schema file's bytes."""
        described: dict[str, Any] = {
            "version": self.version,
            "id": self.id,
            "fields": [column.to_json() for column in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": self.options,
        }
        if self.comment is not None:
            described["comment"] = self.comment
        described["timeMillis"] = self.time_millis
        return seal_json(json.dumps(described, indent=2, ensure_ascii=False).encode())

    @classmethod
    @checked
    def from_json(cls, data: bytes, path: str = "schema") -> TableSchema:
        """Read the schema from a schema file's bytes.

        Raises:
            CorruptFileError: it is no schema; the message names ``path``.
            UnsupportedError: a newer version of the format, or a type that pkray does not have.
        """
        try:
            check_json(data)
            return _from_json(values(data), path)
        except (ValueError, KeyError, TypeError, SchemaError, RecursionError) as error:
            what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise CorruptFileError(
                f"schema file {path!r} is damaged: {what}; restore it from a copy, or write it "
                "again from another schema of the table",
                path=path,
            ) from error


def _columns(schema: Columns) -> Iterator[tuple[str, DataType, str | None]]:
    if isinstance(schema, pa.Schema):
        for column in schema:
            description = (column.metadata or {}).get(b"description")
            with nesting_named(column.name):
                data_type = DataType.from_field(column)
            yield column.name, data_type, description.decode() if description else None
        return
    for column in schema.items() if isinstance(schema, Mapping) else schema:
        if isinstance(column, str) or len(column) != 2:
            raise SchemaError(
                f"{column!r} is no column: write a pyarrow schema, or pairs of a name and a type "
                "such as ('id', 'BIGINT')",
                value=column,
            )
        name, said = column
        with nesting_named(name):
            given = DataType.given(said)
        yield name, given, None


def _name_list(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    check_name_list(argument, names)
    return tuple(names)


def _keyed(data_type: DataType, is_key: bool) -> DataType:
    return data_type.with_nullable(False) if is_key else data_type


# What tables of older versions of the format have where their options say nothing.
_OLD_DEFAULTS = {1: {"bucket": "1", "file.format": "orc"}, 2: {"file.format": "orc"}}


def _from_json(described: Any, path: str) -> TableSchema:
    if not isinstance(described, dict) or not isinstance(described.get("options", {}), dict):
        raise TypeError("it holds no JSON object of a schema, or one whose options are none")
    version = _whole(described, "version", 1)
    if version > VERSION:
        raise UnsupportedError(
            f"schema file {path!r} has version {version}; pkray reads up to {VERSION}",
            path=path,
            version=version,
        )
    keys = _texts(described, "primaryKeys")
    fields = tuple(
        replace(column, type=_keyed(column.type, column.name in keys))
        for column in map(DataField.from_json, described["fields"])
    )
    options = {key: _option(key, value) for key, value in described["options"].items()}
    schema = TableSchema(
        _whole(described, "id"),
        fields,
        _whole(described, "highestFieldId"),
        _texts(described, "partitionKeys"),
        keys,
        {**_OLD_DEFAULTS.get(version, {}), **options},
        _text(described, "comment"),
        _whole(described, "timeMillis", 0),
        VERSION,
    )
    for name in (*schema.partition_keys, *schema.primary_keys):
        schema.field(name)
    if len(set(schema.names)) < len(fields):
        raise ValueError("two columns have one name")
    if len({column.id for column in fields}) < len(fields):
        raise ValueError("two columns have one id")
    highest = max((column.id for column in fields), default=None)
    if highest is None or highest > schema.highest_field_id:
        raise ValueError("its columns are none, or have ids above the highest")
    return schema


def _whole(described: dict[str, Any], key: str, absent: int | None = None) -> int:
    value = described[key] if absent is None else described.get(key, absent)
    if type(value) is not int or value < -1:
        raise ValueError(f"{key!r} is {value!r}, no whole number that it can be")
    return value


def _text(described: dict[str, Any], key: str) -> str | None:
    value = described.get(key)
    if not isinstance(value, str | None):
        raise ValueError(f"{key!r} is {value!r}, no text")
    return value


def _texts(described: dict[str, Any], key: str) -> tuple[str, ...]:
    value = described[key]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{key!r} is {value!r}, no list of names")
    return tuple(value)


def _option(key: str, value: object) -> str:
    """Return an option's text; some engines write numbers as such."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"option {key!r} is {value!r}, no text")
    return str(value)
